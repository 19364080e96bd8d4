import { isWholeRun } from "@berth/testing/sampled"
import { noteSample } from "@berth/testing/samples"
import { seededFor } from "@berth/testing/seed"
import type Sqlite from "better-sqlite3"
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { openMemoryStore } from "./testing/memory-store.ts"
import { type Actor, play, watchStore } from "./testing/scene.ts"
import { type Choose, drawnOrders, everyOrder } from "./testing/schedule.ts"
import { POLICY } from "./testing/world.ts"

/** Time stands still while an actor has something to do, so that the same choices lead to the same order. */
beforeEach(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"],
    fakeNodeBuiltins: true,
  })
  vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => {
    const over = new AbortController()
    setTimeout(() => over.abort(new DOMException("the time is over", "TimeoutError")), ms)
    return over.signal
  })
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

const openWatchedStore = async (mutate?: (statement: string) => string) => {
  const sqlite = await openMemoryStore(mutate)
  onTestFinished(() => void sqlite.close())
  watchStore(sqlite)
  return sqlite
}

/** The orders of the scenes below: those of pairs as a whole run counts them, those of crowds estimated from drawn ones. */
const ORDERS = 1_393_000

/** Orders that a run draws of each scene, if it does not take all. */
const DRAWN = 10

interface Scene {
  readonly name: string
  readonly idleMs: number
  /** Without deviations, each actor goes on to its end. So the users are the last. */
  readonly actors: readonly Actor[]
}

/** Plays one order of a scene. Fails with what was wrong, and the order in which it came to that. */
const playOn =
  (sqlite: Sqlite.Database, { idleMs, actors }: Scene) =>
  async (choose: Choose): Promise<void> => {
    const passTime = () => void vi.advanceTimersToNextTimer()
    const { wrong, trace } = await play(actors, { sqlite, idleMs, choose, passTime })
    vi.clearAllTimers()
    if (wrong.length > 0) throw new Error(`${wrong.join("; ")}, in the order ${trace}`)
  }

const change: Actor = (scene) => scene.up(2)
const changeBack: Actor = async (scene) => {
  await scene.up(2)
  await scene.up(1)
}

/** The actors that would take the sandbox away. */
const TAKERS: Readonly<Record<string, readonly [idleMs: number, Actor]>> = {
  "its workspace changes": [0, change],
  "a person stops it": [0, (scene) => scene.stop()],
  "it is idle for so long that it is frozen": [POLICY.pauseAfterMs, (scene) => scene.reconcile()],
  "it is idle for so long that it is stopped": [POLICY.stopAfterMs, (scene) => scene.reconcile()],
}

/** The actors that use the sandbox. */
const USERS: Readonly<Record<string, Actor>> = {
  "a command that ends": (scene) => scene.use(),
  "a command that runs on": (scene) => scene.use({ isLong: true }),
  "a prompt": (scene) => scene.prompt({ isLong: true }),
  "a session with two prompts": async (scene) => {
    await scene.prompt()
    await scene.prompt()
  },
  "a session that is watched": async (scene) => {
    await scene.prompt()
    await scene.watch()
  },
  "a hold": (scene) => scene.hold({ isLong: true }),
  "a terminal": (scene) => scene.terminal({ isLong: true }),
}

const PAIRS: readonly Scene[] = Object.entries(USERS).flatMap(([user, use]) =>
  Object.entries(TAKERS).map(([taker, [idleMs, take]]) => ({
    name: `${user} comes when ${taker}`,
    idleMs,
    actors: [take, use],
  })),
)

const there = Object.entries(USERS).map(([user, use]) => ({
  name: `${user} comes when its workspace changes there and back`,
  idleMs: 0,
  actors: [changeBack, use],
}))

const CROWDS: readonly Scene[] = [
  ...there,
  {
    name: "a command comes when its workspace changes and a pass looks at it",
    idleMs: 0,
    actors: [change, (scene) => scene.reconcile(), (scene) => scene.use()],
  },
  {
    name: "a command comes when it is frozen, changed and stopped at once",
    idleMs: POLICY.pauseAfterMs,
    actors: [change, (scene) => scene.stop(), (scene) => scene.use()],
  },
  {
    name: "two commands come when it is idle for so long that it is stopped",
    idleMs: POLICY.stopAfterMs,
    actors: [
      (scene) => scene.reconcile(),
      (scene) => scene.use({ isLong: true }),
      (scene) => scene.use(),
    ],
  },
  {
    name: "a prompt, a hold and a terminal come when its workspace changes",
    idleMs: 0,
    actors: [
      change,
      (scene) => scene.prompt(),
      (scene) => scene.hold(),
      (scene) => scene.terminal(),
    ],
  },
]

/**
 * How many deviations a whole run takes of crowds. An order takes about 6 ms: with three deviations there are 1.26 million,
 * which take two hours, so `BERTH_CROWD_DEVIATIONS=3` asks for them.
 */
const CROWD_DEVIATIONS = Number(process.env.BERTH_CROWD_DEVIATIONS ?? 2)
const LIMIT_MS = isWholeRun ? 4 * 3_600_000 : 60_000
const explored = { orders: 0 }

/** Plays orders of a scene: all of them, or those with few deviations and then some drawn ones. */
const explore = async (
  scene: Scene,
  deviations: { readonly sampled: number; readonly whole: number },
): Promise<void> => {
  const { name } = scene
  const run = playOn(await openWatchedStore(), scene)
  const orders = await everyOrder(isWholeRun ? deviations.whole : deviations.sampled, run)
  explored.orders += orders
  if (isWholeRun) return console.log(`${name}: ${orders.toLocaleString("en")} orders`)
  await drawnOrders({ orders: DRAWN, maxDeviations: 3 }, seededFor(name), run)
  explored.orders += DRAWN
}

const PAIRS_TITLE = isWholeRun
  ? "in every order with up to three deviations"
  : `in every order with one deviation, and in ${DRAWN} drawn from those with up to three`
describe(`[R1.6] [R1.7] two actors on one sandbox, ${PAIRS_TITLE}, cut no use off and end settled:`, () => {
  it.each(PAIRS)("$name", (scene) => explore(scene, { sampled: 1, whole: 3 }), LIMIT_MS)
})

const CROWDS_TITLE = isWholeRun
  ? `in every order with up to ${CROWD_DEVIATIONS} deviations`
  : `in ${DRAWN} orders drawn from those with up to three deviations`
describe(`[R1.6] [R1.7] several actors on one sandbox, ${CROWDS_TITLE}, cut no use off and end settled:`, () => {
  it.each(CROWDS)(
    "$name",
    (scene) => explore(scene, { sampled: 0, whole: CROWD_DEVIATIONS }),
    LIMIT_MS,
  )
})

afterAll(() => {
  const { orders: taken } = explored
  if (isWholeRun) console.log(`${taken.toLocaleString("en")} orders in all`)
  else noteSample({ what: "orders of interleavings", taken, of: ORDERS, isDrawn: true })
})

/** Faults in the statements that keep a sandbox from being taken away in use. */
const FAULTS = [
  {
    fault: "a stop that does not look at the leases",
    from: 'from "leases" where "leases"."sandbox"',
    to: 'from "leases" where 0 and "leases"."sandbox"',
    says: "stopping in use",
  },
  {
    fault: "a lease that does not look at the phase",
    from: "AND sandboxes.phase IN",
    to: "OR 0 AND sandboxes.phase IN",
    says: "leased though stopping",
  },
] as const

describe("the search through orders", () => {
  it.each(FAULTS)("finds $fault with one deviation", async ({ from, to, says }) => {
    let mutated = 0
    const sqlite = await openWatchedStore((statement) => {
      if (statement.includes(from)) mutated += 1
      return statement.replace(from, to)
    })
    const scenes = PAIRS.filter(({ name }) => name.startsWith("a command that runs on"))
    const faults: string[] = []
    for (const scene of scenes)
      await everyOrder(1, playOn(sqlite, scene)).catch((thrown) => faults.push(String(thrown)))
    expect(mutated).toBeGreaterThan(0)
    expect(faults.join("\n")).toContain(says)
  })

  it("goes through each order with up to two deviations once", async () => {
    // Three steps with three choices each.
    const orders = new Set<string>()
    const count = await everyOrder(2, async (choose) => {
      orders.add([choose(3), choose(3), choose(3)].join(""))
    })
    expect(count).toBe(1 + 3 * 2 + 3 * 4)
    expect(orders.size).toBe(count)
  })

  it("fails for a scene that is not the same each time, rather than miss orders of it", async () => {
    let runs = 0
    const run = async (choose: Choose) => {
      runs += 1
      choose(2)
      choose(runs)
    }
    await expect(everyOrder(2, run)).rejects.toThrow("went another way")
  })
})
