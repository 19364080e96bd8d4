import { readdirSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import type { SandboxId } from "@berth/protocol/ids"
import type { Client } from "@berth/sdk/client"
import type { startEngine } from "../docker/engine.ts"
import { findInside, kill } from "./inside.ts"
import { insist } from "./insist.ts"
import type { Mishap } from "./mishaps.ts"

type Engine = Awaited<ReturnType<typeof startEngine>>

/** A sandbox that ended is replaced within this time beside other tests. */
const START_MS = 30_000
/** An engine that has begun a start records it within this time. */
export const WITHIN_START_MS = 150

/** Deaths of an engine. The next engine ends the sandboxes that it finds, or goes on with them. */
export const engineMishaps = (engine: () => Engine): Readonly<Record<string, Mishap>> => ({
  "the engine is killed": async () => {
    await engine().restart({ liveRestore: false })
    return true
  },
  "the engine is killed, which its sandboxes outlive": async () => {
    await engine().restart({ liveRestore: true })
    return true
  },
  "the engine is killed in the middle of a start": async ({ client }, sandbox, random) => {
    const before = shimsOf(engine())
    const workspace = sandbox && (await workspaceOf(client(), sandbox))
    if (sandbox === undefined || workspace === undefined) return false
    if (!kill(findInside(sandbox)?.first, "SIGKILL")) return false
    // Prompts that have ended by now start no sandbox.
    const wanted = insist(() => client().sandboxes.create({ workspace }))
    const isStruck = await hasStarted(engine(), before)
    await pause(random() * WITHIN_START_MS)
    await engine().restart({ liveRestore: true })
    await wanted
    return isStruck
  },
})

const workspaceOf = async (client: Client, sandbox: SandboxId) => {
  const { identity } = await insist(() => client.sandboxes.get(sandbox))
  return await insist(() => client.workspaces.get(identity.workspace))
}

/** Resolves when the engine has begun a start of a container that is none of these; false if it does not in time. */
export const hasStarted = async (engine: Engine, before: readonly string[]): Promise<boolean> => {
  const untilMs = performance.now() + START_MS
  const isStarting = () => shimsOf(engine).some((id) => !before.includes(id))
  while (!isStarting() && performance.now() < untilMs) await pause(1)
  return isStarting()
}

/**
 * The containers of an engine that have a process outside that watches over them, as `containerd-shim-runc-v2 -id ID`: the
 * first sign of a start.
 */
export const shimsOf = ({ data }: Pick<Engine, "data">): string[] =>
  readdirSync("/proc").flatMap((name) => {
    try {
      const [program = "", ...args] = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0")
      const isOfEngine = args.some((arg) => arg.startsWith(dirname(data)))
      const id = args[args.indexOf("-id") + 1]
      return program.includes("containerd-shim") && isOfEngine && id !== undefined ? [id] : []
    } catch {
      return []
    }
  })
