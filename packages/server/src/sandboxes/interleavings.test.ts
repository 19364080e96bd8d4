import { setImmediate as turn } from "node:timers/promises"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { isWholeRun, sized } from "@berth/testing/sampled"
import { seededFor } from "@berth/testing/seed"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Sandboxes } from "./sandboxes.ts"
import { FakeClock } from "./testing/clock.ts"
import { MemoryBackend } from "./testing/memory-backend.ts"
import { openMemoryHost } from "./testing/memory-host.ts"
import { heldUp, openMemoryStore } from "./testing/memory-store.ts"
import { type Choose, drawnOrders, everyOrder, Schedule } from "./testing/schedule.ts"
import { POLICY } from "./testing/world.ts"

/** Drawn orders of each scene, beside all the orders in which somebody else goes on once. */
const DRAWN = sized("drawn orders of an interleaving", { few: 15, all: 200 })

/** More than any order takes. */
const MAX_STEPS = 600

let sqlite: Awaited<ReturnType<typeof openMemoryStore>>
beforeAll(async () => {
  sqlite = await openMemoryStore()
})
afterAll(() => {
  sqlite.close()
})

const specOf = (slug: Slug, version: number): WorkspaceSpec =>
  WorkspaceSpec.parse({ slug, environment: { VERSION: String(version) } })

const { signal } = new AbortController()

/** One workspace with a sandbox that is ready and has been idle for so long, and those who are at it. */
interface Scene {
  readonly sandboxes: Sandboxes
  readonly sandbox: SandboxId
  readonly backend: MemoryBackend
  /** Somebody who uses it, for a moment or until nobody else has anything to do. */
  use(options?: { isLong?: boolean }): Promise<void>
  /** The workspace as it is now, or changed. */
  up(version: number): Promise<void>
  stop(): Promise<void>
  reconcile(): Promise<void>
}

type Actor = (scene: Scene) => Promise<void>

/** Plays one order of all that the actors do, and looks at everything that may never be. */
const play = async (actors: Actor[], idleMs: number, choose: Choose): Promise<void> => {
  const schedule = new Schedule(choose)
  const slug = Slug.parse(`w-${newId.sandbox()}`)
  const clock = new FakeClock()
  const wrong: string[] = []
  const leasesOf = (sandbox: SandboxId) =>
    sqlite.prepare("SELECT holder FROM leases WHERE sandbox = ?").all(sandbox).length
  const backend = new MemoryBackend(async (call, sandbox) => {
    await schedule.point(call)
    const isEnd = call === "stop" || call === "remove"
    if (isEnd && sandbox && leasesOf(sandbox) > 0) wrong.push(`${call} of one in use`)
  })
  const sandboxes = await openMemoryHost({
    ...{ backend, clock, policy: POLICY },
    db: heldUp(sqlite, () => schedule.point("store")),
    boot: () => schedule.point("boot"),
  })
  const { sandbox } = await sandboxes.up(specOf(slug, 1), { mode: "fresh" }, signal)
  await sandboxes.booted(sandbox, signal)
  // A first use and its end: from there on it is idle.
  await (
    await sandboxes.use(sandbox, { kind: "exec", source: "call", holder: "first" }, signal)
  ).end()
  clock.pass(idleMs)
  await turn()

  schedule.begin()
  const look = () => {
    const rows = sqlite.prepare("SELECT phase FROM sandboxes WHERE workspace = ?").all(slug)
    const phases = (rows as { phase: string }[]).map(({ phase }) => phase)
    const isCurrent = (phase: string) => ["creating", "booting", "ready"].includes(phase)
    if (phases.filter(isCurrent).length > 1) wrong.push("two current ones")
    if (backend.liveOf(slug).length > 1) wrong.push("two that live")
    return phases
  }
  const scene: Scene = {
    ...{ sandboxes, sandbox, backend },
    use: async ({ isLong = false } = {}) => {
      const use = await sandboxes.use(
        sandbox,
        { kind: "exec", source: "call", holder: "somebody" },
        signal,
      )
      const check = (when: string, states: readonly (string | undefined)[]) => {
        const state = backend.stateOf(use.sandbox)
        if (!states.includes(state)) wrong.push(`${state} ${when}`)
        look()
      }
      // It may be frozen by who has just decided so, and is thawed again without being asked.
      check("when its use begins", ["running", "paused"])
      await schedule.point("use")
      check("in use", ["running", "paused"])
      if (isLong) {
        await schedule.idle()
        check("in use, when all is done", ["running"])
      }
      await use.end()
    },
    up: async (version) => {
      await sandboxes.up(specOf(slug, version), { mode: "fresh" }, signal)
    },
    stop: async () => {
      const stopped = sandboxes.stop(sandbox, { force: false })
      await stopped.catch((thrown) => {
        if (thrown.code !== "sandbox.in_use") throw thrown
      })
    },
    reconcile: async () => {
      const { sandboxes: all } = await sandboxes.reconcile({ dryRun: false })
      for (const { error } of all) if (error !== undefined) wrong.push(error.message)
    },
  }
  const waiting = new Set(actors)
  for (const actor of actors)
    void actor(scene)
      .catch((thrown) => wrong.push(String(thrown)))
      .finally(() => waiting.delete(actor))
  await schedule.run(MAX_STEPS, () => waiting.size === 0)
  // Everybody got what they wanted, and nothing is left half done.
  for (const actor of waiting) wrong.push(`still waits: ${actor}`)
  const phases = look().filter((phase) => phase !== "gone")
  if (phases.some((phase) => phase !== "ready")) wrong.push(`ends ${phases.join(", ")}`)
  if (phases.length !== backend.liveOf(slug).length) wrong.push("the engine has another number")
  schedule.end()
  await sandboxes.close()
  sqlite.exec("DELETE FROM leases; DELETE FROM sandboxes; DELETE FROM workspaces")
  expect({ wrong, trace: wrong.length > 0 ? schedule.trace.join(" ") : "" }).toEqual({
    ...{ wrong: [], trace: "" },
  })
}

const UNUSED_MS = POLICY.pauseAfterMs

/** Whoever comes first would go on to their end; so the users are the last. */
const SCENES: [string, number, Actor[]][] = [
  [
    "somebody comes while it is replaced",
    0,
    [(scene) => scene.up(2), (scene) => scene.reconcile(), (scene) => scene.use()],
  ],
  [
    "somebody stays while it is to be replaced",
    0,
    [(scene) => scene.up(2), (scene) => scene.use({ isLong: true })],
  ],
  [
    "two come, and its workspace changes there and back",
    0,
    [
      async (scene) => {
        await scene.up(2)
        await scene.up(1)
      },
      (scene) => scene.up(1),
      (scene) => scene.use(),
      (scene) => scene.use(),
    ],
  ],
  [
    "somebody comes while a person stops it",
    0,
    [(scene) => scene.stop(), (scene) => scene.reconcile(), (scene) => scene.use()],
  ],
  [
    "somebody stays while it is to be frozen",
    UNUSED_MS,
    [(scene) => scene.reconcile(), (scene) => scene.use({ isLong: true })],
  ],
  [
    "somebody comes while it is frozen, changed and stopped at once",
    UNUSED_MS,
    [(scene) => scene.up(2), (scene) => scene.stop(), (scene) => scene.use()],
  ],
  [
    "somebody comes when it has been idle for too long",
    POLICY.stopAfterMs,
    [(scene) => scene.reconcile(), (scene) => scene.use({ isLong: true }), (scene) => scene.use()],
  ],
]

describe(`[R1.6] [R1.7] in every order of events with one deviation, and in ${DRAWN} drawn ones, nobody is cut off, and all ends settled:`, () => {
  it.each(SCENES)(
    "%s",
    async (scene, idleMs, actors) => {
      const run = (choose: Choose) => play(actors, idleMs, choose)
      await everyOrder(1, run)
      await drawnOrders(DRAWN, seededFor(scene), run)
    },
    isWholeRun ? 600_000 : 60_000,
  )
})
