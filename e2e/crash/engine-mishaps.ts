import { readdirSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import type { startEngine } from "../docker/engine.ts"
import { findInside, kill } from "./inside.ts"
import type { Mishap } from "./mishaps.ts"

type Engine = Awaited<ReturnType<typeof startEngine>>

/** A sandbox that ended is replaced within this time if prompts wait. */
const START_MS = 5_000
/** An engine that has begun a start records it within this time. */
const WITHIN_START_MS = 150

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
  "the engine is killed in the middle of a start": async (_, sandbox, random) => {
    const before = shimsOf(engine())
    if (sandbox === undefined || !kill(findInside(sandbox)?.first, "SIGKILL")) return false
    const untilMs = performance.now() + START_MS
    const isStarting = () => shimsOf(engine()).some((pid) => !before.includes(pid))
    while (!isStarting() && performance.now() < untilMs) await pause(1)
    const isStruck = isStarting()
    await pause(random() * WITHIN_START_MS)
    await engine().restart({ liveRestore: true })
    return isStruck
  },
})

/** The processes that watch over containers of an engine: the first sign of a start. */
export const shimsOf = ({ data }: Pick<Engine, "data">): string[] =>
  readdirSync("/proc").filter((name) => {
    try {
      const [program = "", ...args] = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0")
      const isOfEngine = args.some((arg) => arg.startsWith(dirname(data)))
      return program.includes("containerd-shim") && isOfEngine
    } catch {
      return false
    }
  })
