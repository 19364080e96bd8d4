import { readdirSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it } from "vitest"
import { startEngine } from "../docker/engine.ts"
import { chosenRounds } from "./chosen.ts"
import { findInside, kill } from "./inside.ts"
import { MISHAPS, type Mishap } from "./mishaps.ts"
import { liveThrough, ROUND_MS } from "./prompts-suite.ts"
import { openWorld, type World } from "./world.ts"

type Engine = Awaited<ReturnType<typeof startEngine>>

/** What may happen to an engine: the next one ends the sandboxes that it finds, or goes on with them. */
const OF_ENGINE: Readonly<
  Record<string, (engine: Engine, ...how: Parameters<Mishap>) => Promise<void>>
> = {
  "the engine is killed": (engine) => engine.restart({ liveRestore: false }),
  "the engine is killed, which its sandboxes outlive": (engine) =>
    engine.restart({ liveRestore: true }),
  "the engine is killed in the middle of a start": async (engine, _, sandbox, random) => {
    const before = shimsOf(engine)
    if (sandbox !== undefined) kill(findInside(sandbox)?.first, "SIGKILL")
    const untilMs = performance.now() + START_MS
    const isStarting = () => shimsOf(engine).some((pid) => !before.includes(pid))
    while (!isStarting() && performance.now() < untilMs) await pause(1)
    await pause(random() * WITHIN_START_MS)
    await engine.restart({ liveRestore: true })
  },
}

/** A sandbox that ended is replaced within this, if prompts wait. */
const START_MS = 5_000
/** From when an engine has begun a start until it knows that it was one. */
const WITHIN_START_MS = 150

/** The processes that watch over containers of an engine: the first sign of a start. */
const shimsOf = ({ data }: Engine): string[] =>
  readdirSync("/proc").filter((name) => {
    try {
      const [program = "", ...args] = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0")
      const isOfEngine = args.some((arg) => arg.startsWith(dirname(data)))
      return program.includes("containerd-shim") && isOfEngine
    } catch {
      return false
    }
  })

/** An engine restarts in seconds: a tenth of the rounds takes as long. */
const CHOSEN = chosenRounds(
  "mishaps during prompts, docker",
  [...Object.keys(MISHAPS), ...Object.keys(OF_ENGINE)],
  2,
  { share: 0.1 },
)
const STAGE_MS = 180_000

requires("root", "docker", "tini").describe("prompts on a Docker engine, whatever ends", () => {
  let engine: Engine
  let world: World
  beforeAll(async () => {
    engine = await startEngine()
    world = await openWorld(AbortSignal.timeout(STAGE_MS), engine.choice)
  }, STAGE_MS)
  afterAll(async () => {
    try {
      await world?.close()
    } finally {
      await engine?.stop()
    }
  }, STAGE_MS)

  it(
    `[R1.9] [R3.4] are neither lost nor run twice, neither is an event, and no process is left (${CHOSEN.length} times)`,
    async ({ onTestFailed }) => {
      onTestFailed(() => console.error(world.log().join("\n")))
      const ofEngine = Object.entries(OF_ENGINE).map(([name, happen]): [string, Mishap] => [
        name,
        (...how) => happen(engine, ...how),
      ])
      const mishaps = { ...MISHAPS, ...Object.fromEntries(ofEngine) }
      await liveThrough(world, { chosen: CHOSEN, mishaps })
      // An engine that was killed forgets what it had begun; nothing of that is left.
      await expect
        .poll(async () => shimsOf(engine).length - (await engine.containers()).length)
        .toBe(0)
    },
    CHOSEN.length * 2 * ROUND_MS,
  )
})
