import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { SandboxId } from "@berth/protocol/ids"
import type { SandboxIdentity } from "@berth/protocol/sandbox"
import { z } from "zod"
import { run } from "../../host/run.ts"
import type { Short, Usage } from "./judge.ts"

/** A tree of some hundred thousand files is measured in this time; one that is not has more than any honest one. */
const MEASURE_DEADLINE_MS = 5_000

const Claim = z.object({ sandbox: SandboxId })

/** Measures what sandboxes have written on this disk: their tops, and what is their own beside them. */
export const measureUsage = async (
  dataDir: string,
  sandboxes: readonly Pick<SandboxIdentity, "sandbox" | "workspace">[],
  what: Short,
  signal: AbortSignal,
): Promise<Usage> => {
  const places = new Map<SandboxId, string[]>(sandboxes.map(({ sandbox }) => [sandbox, []]))
  const add = (sandbox: SandboxId, place: string) => places.get(sandbox)?.push(place)
  const tops = join(dataDir, "layers", "tops")
  for (const top of await namesIn(tops)) {
    const claimedBy = await claimantOf(join(tops, top, "claim.json"))
    if (claimedBy !== undefined) add(claimedBy, join(tops, top))
  }
  for (const backend of await namesIn(dataDir)) {
    for (const { sandbox, workspace } of sandboxes) {
      const caches = join(dataDir, backend, "caches", workspace)
      if ((await namesIn(caches)).length > 0) add(sandbox, caches)
    }
    for (const name of await namesIn(join(dataDir, backend, "sandboxes"))) {
      const sandbox = SandboxId.safeParse(name)
      if (sandbox.success) add(sandbox.data, join(dataDir, backend, "sandboxes", name))
    }
  }
  for (const { sandbox } of sandboxes) add(sandbox, join(dataDir, "links", sandbox))
  const measured = await Promise.all(
    [...places].map(async ([sandbox, of]) => [sandbox, await measure(of, what, signal)] as const),
  )
  return new Map(measured)
}

/** By a program of its own: neither the depth nor the number of files is the server's matter. */
const measure = async (
  places: readonly string[],
  what: Short,
  signal: AbortSignal,
): Promise<number> => {
  if (places.length === 0) return 0
  const unit = what === "bytes" ? "--block-size=1" : "--inodes"
  const flags = ["--summarize", "--total", "--one-file-system", "--count-links", unit, "--"]
  try {
    const options = { signal, deadlineMs: MEASURE_DEADLINE_MS }
    const { stdout } = await run(["du", ...flags, ...places], options)
    return Number.parseInt(stdout.trimEnd().split("\n").at(-1) ?? "", 10) || 0
  } catch {
    signal.throwIfAborted()
    return Number.POSITIVE_INFINITY
  }
}

const claimantOf = async (claim: string): Promise<SandboxId | undefined> => {
  try {
    return Claim.parse(JSON.parse(await readFile(claim, "utf8"))).sandbox
  } catch {
    return undefined
  }
}

const namesIn = (directory: string): Promise<string[]> => readdir(directory).catch(() => [])
