import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"
import { demand } from "./tool.ts"

const Chain = z.object({
  family: z.string(),
  table: z.string(),
  name: z.string(),
  /** A chain without a hook is only jumped to. */
  hook: z.string().optional(),
  type: z.string().optional(),
  policy: z.string().optional(),
})
export type Chain = z.infer<typeof Chain>

const Rule = z.object({
  handle: z.number(),
  comment: z.string().optional(),
  expr: z.array(z.record(z.string(), z.unknown())),
})
export type Rule = z.infer<typeof Rule>

const Listing = z.object({
  nftables: z.array(z.object({ chain: Chain.optional(), rule: Rule.optional() })),
})

/** Every chain of this network namespace, ours and others', without their rules. */
export const readChains = async (): Promise<Chain[]> =>
  (await list("chains")).flatMap(({ chain }) => chain ?? [])

export const readRules = async ({ family, table, name }: Chain): Promise<Rule[]> =>
  (await list("chain", family, table, name)).flatMap(({ rule }) => rule ?? [])

const list = async (...what: string[]): Promise<z.infer<typeof Listing>["nftables"]> => {
  const text = await demand(["nft", "--json", "--handle", "list", ...what], {
    signal: new AbortController().signal,
  })
  try {
    return Listing.parse(JSON.parse(text)).nftables
  } catch (cause) {
    throw new BerthError("backend.engine_failed", `nft list ${what.join(" ")} is not understood`, {
      details: { engineSaid: text.slice(0, 1_000) },
      cause,
    })
  }
}
