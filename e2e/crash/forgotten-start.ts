import { setTimeout as pause } from "node:timers/promises"
import { seededFor } from "@berth/testing/seed"
import { expect, it, onTestFailed } from "vitest"
import { processesOf, type startEngine } from "../docker/engine.ts"
import { hasStarted, shimsOf, WITHIN_START_MS } from "./engine-mishaps.ts"
import { kill } from "./inside.ts"
import { insist } from "./insist.ts"
import type { World } from "./world.ts"

type Engine = Awaited<ReturnType<typeof startEngine>>

const DEADLINE_MS = 300_000
/** An engine that has just noted a start knows the container afterwards: then it is killed in the middle of another start. */
const MAX_TRIES = 10

/** Registers the test of a start in the middle of which the engine is killed. */
export const addForgottenStart = (world: () => World, engine: () => Engine): void => {
  const runningIds = async () =>
    (await engine().containers()).filter(({ State }) => State === "running").map(({ Id }) => Id)

  /** The containers of which something runs that their engine does not know to run. */
  const forgotten = async (): Promise<string[]> => {
    const known = await runningIds()
    return shimsOf(engine()).filter((id) => !known.includes(id))
  }

  const up = async () => {
    const workspace = { slug: "forgotten", network: { kind: "none" as const } }
    const sandbox = await insist(() => world().client().sandboxes.create({ workspace }))
    await insist(() => sandbox.ready())
    return sandbox
  }

  it(
    "[R1.8] leaves no process of a container that its engine, killed in the middle of the start, does not know to run",
    async () => {
      onTestFailed(() => console.error(world().log().join("\n")))
      const random = seededFor("when an engine is killed in a start")
      for (let tries = 1; ; tries += 1) {
        const before = shimsOf(engine())
        const coming = up()
        expect(await hasStarted(engine(), before)).toBe(true)
        // So that it ends nothing before it was seen.
        kill(world().pid(), "SIGSTOP")
        await pause(random() * WITHIN_START_MS)
        await engine().restart({ liveRestore: true })
        const lost = await forgotten()
        kill(world().pid(), "SIGCONT")
        const sandbox = await coming
        await expect.poll(forgotten).toEqual([])
        expect(processesOf(lost.map((Id) => ({ Id })))).toEqual([])
        await sandbox.remove({ force: true })
        if (lost.length > 0) return
        expect(tries).toBeLessThan(MAX_TRIES)
      }
    },
    DEADLINE_MS,
  )
}
