import { createHash } from "node:crypto"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { z } from "zod"
import { ADAPTERS, type OptionalAgent } from "../inputs/optional-agents.ts"
import { needPackage } from "../inputs/packages.ts"

/** The one version of an agent that this version of Berth works with, with the hash of every package. */
export interface AgentPin {
  readonly agent: OptionalAgent
  readonly adapter: string
  readonly version: string
  /** The approximate size of the agent's packages. */
  readonly bytes: number
  readonly manifest: string
  readonly lock: string
  /** A digest that differs if any package does. */
  readonly digest: string
}

const Manifest = z.object({
  dependencies: z.record(z.string(), z.string()),
  berth: z.object({ bytes: z.int().positive() }),
})

/** Enough to tell the few locks apart that an installation ever sees. */
const DIGEST_LETTERS = 16

/** Reads Berth's pin of an agent. `from` is a directory of Berth. */
export const readPin = async (agent: OptionalAgent, from: string): Promise<AgentPin> => {
  const { directory } = await needPackage(agent, "@berth/toolbox", from)
  const read = (file: string) => readFile(join(directory, "agents", agent, file), "utf8")
  const [manifest, lock] = await Promise.all([read("package.json"), read("package-lock.json")])
  const { dependencies, berth } = Manifest.parse(JSON.parse(manifest))
  const adapter = ADAPTERS[agent]
  const digest = createHash("sha256").update(lock).digest("hex").slice(0, DIGEST_LETTERS)
  return {
    agent,
    adapter,
    manifest,
    lock,
    digest,
    version: dependencies[adapter] ?? "",
    bytes: berth.bytes,
  }
}
