import type { EngineState } from "@berth/backends/backend"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { StoredPhase } from "../../store/database.ts"
import { apply, later } from "../testing/model.ts"
import {
  MINUTE_MS,
  NEW_CONFIG,
  OLD_CONFIG,
  POLICY,
  SECOND_MS,
  type Truth,
  worldOf,
} from "../testing/world.ts"
import type { KnownActivity } from "../use/activities.ts"
import { type Action, type Decision, decide, type Known, type World } from "./decide.ts"

const stale = { desiredHash: NEW_CONFIG }
const wantedUnknown = { desiredHash: undefined }
const replaced = { isReplaced: true }
const ACTIVE = { kind: "active", what: "1 command" } as const
const used = { users: ["exec of command 1"] }
const asked = (activity: KnownActivity["kind"]): { activity: KnownActivity } => ({
  activity:
    activity === "active"
      ? { kind: "active", what: "1 command" }
      : activity === "silent"
        ? { kind: "silent", forMs: 0, queriedMs: 0 }
        : { kind: activity },
})
const silent = (forMs: number, queriedMs: number): { activity: KnownActivity } => ({
  activity: { kind: "silent", forMs, queriedMs },
})
const low = { pressure: "memory runs low" }

type Case = [
  known: (Partial<Known> & { phase: StoredPhase }) | undefined,
  state: EngineState | undefined,
  others: Partial<Omit<World, "known" | "state">>,
  action: string,
  again?: number,
]

/** The store's phase, the engine's state and other facts → the action, and the time until the next look. */
const TABLE: Record<string, Case[]> = {
  "halted, because it fills the disk": [
    [undefined, "running", { ...asked("unknown"), halted: "the disk is full" }, "keep"],
    [{ phase: "ready" }, "paused", { ...used, halted: "the disk is full" }, "keep"],
    [{ phase: "ready" }, "running", { idleMs: 1e9, halted: "the disk is full" }, "keep"],
    [{ phase: "ready" }, "exited", { halted: "the disk is full" }, "bury"],
    [{ phase: "stopping" }, "running", { halted: "the disk is full" }, "remove"],
  ],
  "[R1.10] unknown to the store": [
    [undefined, undefined, {}, "keep"],
    [undefined, "created", {}, "quarantine"],
    [undefined, "exited", {}, "quarantine"],
    [undefined, "running", asked("unknown"), "query"],
    [undefined, "running", asked("active"), "adopt"],
    [undefined, "running", asked("none"), "quarantine"],
    [undefined, "running", silent(0, 0), "keep", 5 * SECOND_MS],
    [undefined, "running", silent(30 * SECOND_MS, 4 * SECOND_MS), "keep", SECOND_MS],
    [undefined, "running", silent(30 * SECOND_MS, 5 * SECOND_MS), "query"],
    [undefined, "running", silent(POLICY.silentMs, 0), "quarantine"],
    [undefined, "running", silent(POLICY.silentMs, 59 * SECOND_MS), "quarantine"],
    [undefined, "running", silent(POLICY.silentMs, MINUTE_MS), "query"],
    [undefined, "paused", asked("unknown"), "resume"],
    [undefined, "paused", silent(POLICY.silentMs, 0), "resume"],
  ],
  "[R1.10] quarantined": [
    [{ phase: "quarantined" }, undefined, {}, "forget"],
    [{ phase: "quarantined" }, "running", {}, "quarantine"],
    [{ phase: "quarantined" }, "paused", {}, "quarantine"],
    [{ phase: "quarantined" }, "created", {}, "keep", POLICY.quarantineMs],
    [{ phase: "quarantined" }, "exited", {}, "keep", POLICY.quarantineMs],
    [{ phase: "quarantined", ...stale }, "exited", low, "keep", POLICY.quarantineMs],
    [{ phase: "quarantined", phaseMs: MINUTE_MS }, "exited", {}, "keep", 119 * MINUTE_MS],
    [{ phase: "quarantined", phaseMs: POLICY.quarantineMs }, "exited", {}, "stop ended"],
    [{ phase: "quarantined", phaseMs: POLICY.quarantineMs }, "running", {}, "stop ended"],
  ],
  "stopping or gone": [
    [{ phase: "stopping" }, undefined, {}, "forget"],
    [{ phase: "stopping" }, "created", {}, "remove"],
    [{ phase: "stopping" }, "running", {}, "remove"],
    [{ phase: "stopping" }, "paused", {}, "remove"],
    [{ phase: "stopping" }, "exited", {}, "remove"],
    [{ phase: "gone" }, undefined, {}, "keep"],
    [{ phase: "gone" }, "running", {}, "remove"],
    [{ phase: "gone" }, "exited", {}, "remove"],
    [{ phase: "gone", isPresumedDead: true }, "paused", {}, "resume"],
    [
      { phase: "gone", isPresumedDead: true },
      "running",
      { activity: { kind: "unknown" } },
      "query",
    ],
    [{ phase: "gone", isPresumedDead: true }, "running", {}, "remove"],
    [{ phase: "stopping", isPresumedDead: true }, "running", { activity: ACTIVE }, "adopt"],
    [{ phase: "stopping", isPresumedDead: true }, "exited", {}, "remove"],
  ],
  "being made": [
    [{ phase: "creating", isBeingMade: true }, undefined, {}, "keep"],
    [{ phase: "creating", isBeingMade: true }, "created", {}, "keep"],
    [{ phase: "creating", isBeingMade: true, ...stale }, "running", {}, "keep"],
    [{ phase: "booting", isBeingMade: true, ...stale }, "running", used, "keep"],
  ],
  "[R1.9] dead": [
    [{ phase: "creating" }, undefined, {}, "bury"],
    [{ phase: "creating" }, "created", {}, "bury"],
    [{ phase: "booting" }, "exited", {}, "bury"],
    [{ phase: "ready" }, undefined, {}, "bury"],
    [{ phase: "ready" }, undefined, used, "bury"],
    [{ phase: "ready" }, "exited", used, "bury"],
    [{ phase: "draining" }, "exited", used, "bury"],
  ],
  "[R1.9] not yet asked since the server started": [
    [{ phase: "creating" }, "running", asked("unknown"), "query"],
    [{ phase: "booting" }, "running", asked("unknown"), "query"],
    [{ phase: "ready" }, "running", asked("unknown"), "query"],
    [{ phase: "ready", ...stale }, "running", asked("unknown"), "query"],
    [{ phase: "draining", ...stale }, "running", asked("unknown"), "query"],
    [{ phase: "ready" }, "running", { ...asked("unknown"), ...low }, "query"],
    [{ phase: "ready", ...stale }, "running", silent(0, 0), "keep", 5 * SECOND_MS],
    [{ phase: "ready", ...stale }, "running", silent(9 * SECOND_MS, 5 * SECOND_MS), "query"],
    [{ phase: "ready", ...stale }, "running", silent(POLICY.silentMs, 0), "stop stale"],
    [{ phase: "ready" }, "running", { ...silent(POLICY.silentMs, MINUTE_MS), ...used }, "query"],
    [{ phase: "ready" }, "running", { ...silent(POLICY.silentMs, 0), ...used }, "keep"],
    // A paused sandbox cannot answer. It was not in use when it was paused.
    [{ phase: "ready", ...stale }, "paused", asked("unknown"), "stop stale"],
  ],
  "with a failed boot": [
    [{ phase: "failed" }, "running", {}, "keep", POLICY.failedBootKeepMs],
    [{ phase: "failed", phaseMs: 14 * MINUTE_MS }, "running", { idleMs: 1e9 }, "keep", MINUTE_MS],
    [{ phase: "failed", phaseMs: POLICY.failedBootKeepMs }, "running", {}, "stop idle"],
    [{ phase: "failed", phaseMs: 1e9 }, "running", used, "keep"],
    [{ phase: "failed", phaseMs: 1e9 }, "running", { keptFor: ["session 1"] }, "stop idle"],
    [{ phase: "failed" }, "running", low, "stop pressure"],
    [{ phase: "failed" }, "running", { ...used, ...low }, "keep"],
    [{ phase: "failed", ...stale }, "running", {}, "stop stale"],
    [{ phase: "failed", ...stale }, "running", used, "keep"],
    [{ phase: "failed" }, "running", asked("unknown"), "query"],
    [{ phase: "failed" }, "exited", used, "bury"],
  ],
  "[R1.6] in use": [
    [{ phase: "creating" }, "running", used, "keep"],
    [{ phase: "booting" }, "running", used, "keep"],
    [{ phase: "ready" }, "running", used, "keep"],
    [{ phase: "ready" }, "running", { ...used, idleMs: 1e9 }, "keep"],
    [{ phase: "ready" }, "running", { ...used, ...low }, "keep"],
    [{ phase: "ready" }, "paused", used, "resume"],
    [{ phase: "ready", ...wantedUnknown }, "running", used, "keep"],
    [{ phase: "draining", ...wantedUnknown }, "running", used, "keep"],
  ],
  "[R1.6] stale and in use": [
    [{ phase: "creating", ...stale }, "running", used, "drain"],
    [{ phase: "booting", ...stale }, "running", used, "drain"],
    [{ phase: "ready", ...stale }, "running", used, "drain"],
    [{ phase: "ready", ...stale }, "paused", used, "drain"],
    [{ phase: "draining", ...stale }, "running", used, "keep"],
    [{ phase: "draining", ...stale }, "running", { ...used, ...low, idleMs: 1e9 }, "keep"],
    [{ phase: "draining", ...stale }, "paused", used, "resume"],
    [{ phase: "draining", ...replaced }, "running", used, "keep"],
    // The workspace is again as it was.
    [{ phase: "draining" }, "running", used, "undrain"],
    [{ phase: "draining" }, "paused", used, "undrain"],
  ],
  "[R1.8] stale and unused": [
    [{ phase: "creating", ...stale }, "running", {}, "stop stale"],
    [{ phase: "booting", ...stale }, "running", {}, "stop stale"],
    [{ phase: "ready", ...stale }, "running", {}, "stop stale"],
    [{ phase: "ready", ...stale }, "running", low, "stop stale"],
    [{ phase: "ready", ...stale }, "running", asked("active"), "stop stale"],
    [{ phase: "ready", ...stale }, "paused", {}, "stop stale"],
    [{ phase: "draining", ...stale }, "running", {}, "stop drained"],
    [{ phase: "draining", ...replaced }, "running", {}, "stop drained"],
    [{ phase: "draining", ...replaced, ...wantedUnknown }, "running", {}, "stop drained"],
    [{ phase: "draining" }, "running", {}, "undrain"],
    [{ phase: "draining", ...wantedUnknown }, "running", {}, "keep", 60 * MINUTE_MS],
  ],
  "current and unused": [
    [{ phase: "creating" }, "running", {}, "keep", 60 * MINUTE_MS],
    [{ phase: "booting" }, "running", { idleMs: 20 * MINUTE_MS }, "keep", 40 * MINUTE_MS],
    [{ phase: "booting" }, "running", { idleMs: 60 * MINUTE_MS }, "stop idle"],
    [{ phase: "booting" }, "running", low, "keep", 60 * MINUTE_MS],
    [{ phase: "ready" }, "running", {}, "keep", 10 * MINUTE_MS],
    [{ phase: "ready" }, "running", { idleMs: 4 * MINUTE_MS }, "keep", 6 * MINUTE_MS],
    [{ phase: "ready" }, "running", { idleMs: 10 * MINUTE_MS }, "pause"],
    [{ phase: "ready" }, "paused", { idleMs: 10 * MINUTE_MS }, "keep", 50 * MINUTE_MS],
    [{ phase: "ready" }, "paused", { idleMs: 60 * MINUTE_MS }, "stop idle"],
    [{ phase: "ready" }, "running", { idleMs: 60 * MINUTE_MS }, "stop idle"],
    [{ phase: "ready" }, "running", low, "stop pressure"],
    [{ phase: "ready" }, "paused", low, "stop pressure"],
  ],
  "current and unused, where the host or the policy does less": [
    [
      { phase: "ready" },
      "running",
      { canPause: false, idleMs: 10 * MINUTE_MS },
      "keep",
      50 * MINUTE_MS,
    ],
    [
      { phase: "ready" },
      "running",
      { policy: { ...POLICY, pauseAfterMs: null } },
      "keep",
      60 * MINUTE_MS,
    ],
    [
      { phase: "ready" },
      "paused",
      { policy: { ...POLICY, stopAfterMs: null }, idleMs: 1e9 },
      "keep",
    ],
    [
      { phase: "ready" },
      "running",
      { policy: { ...POLICY, pauseAfterMs: null, stopAfterMs: null }, idleMs: 1e9 },
      "keep",
    ],
  ],
}

const spoken = (action: Action): string =>
  action.kind === "stop" ? `stop ${action.cause}` : action.kind

const titleOf = (known: Case[0], state: Case[1], others: Case[2]): string => {
  const { phase = "unknown", desiredHash, ...rest } = known ?? {}
  const words = Object.entries({ ...rest, ...others }).map(
    ([key, value]) => `${key} ${JSON.stringify(value)}`,
  )
  const isStale = desiredHash === NEW_CONFIG
  return [phase, state ?? "not there", ...(isStale ? ["stale"] : []), ...words].join(", ")
}

describe("decide", () => {
  for (const [group, cases] of Object.entries(TABLE))
    describe(group, () => {
      for (const [known, state, others, action, again] of cases)
        it(`${titleOf(known, state, others)} → ${action}`, () => {
          const decision = decide(worldOf({ known, state, ...others }))
          expect([spoken(decision.action), decision.againInMs]).toEqual([action, again])
        })
    })

  it("names the first three users of a sandbox in its reason", () => {
    const users = ["a", "b", "c", "d", "e"].map((who) => `hold of ${who}`)
    expect(decide(worldOf({ known: stale, users })).reason).toBe(
      "its workspace has changed; used by hold of a, hold of b, hold of c and 2 more",
    )
  })
})

const durations = fc.oneof(
  ...[0, SECOND_MS, 5 * SECOND_MS, MINUTE_MS, 10 * MINUTE_MS, 60 * MINUTE_MS, 1e9].map((ms) =>
    fc.constant(ms),
  ),
  fc.double({ min: 0, max: 2e8, noNaN: true }),
)
const limits = fc.option(
  durations.filter((ms) => ms > 0),
  { nil: null },
)
const activities = fc.oneof<fc.Arbitrary<KnownActivity>[]>(
  fc.constant({ kind: "unknown" }),
  fc.constant({ kind: "active", what: "1 command" }),
  fc.constant({ kind: "none" }),
  fc.record({ kind: fc.constant("silent"), forMs: durations, queriedMs: durations }),
)
const knowns: fc.Arbitrary<Known | undefined> = fc.option(
  fc.record({
    phase: fc.constantFrom<StoredPhase[]>(
      ...(["creating", "booting", "ready", "draining", "quarantined", "stopping", "gone"] as const),
    ),
    phaseMs: durations,
    configHash: fc.constant(OLD_CONFIG),
    desiredHash: fc.constantFrom(OLD_CONFIG, NEW_CONFIG, undefined),
    isReplaced: fc.boolean(),
    isSuccessorAsked: fc.boolean(),
    isPresumedDead: fc.boolean(),
    isBeingMade: fc.boolean(),
  }),
  { nil: undefined },
)
const worlds: fc.Arbitrary<World> = fc
  .record({
    known: knowns,
    state: fc.constantFrom<(EngineState | undefined)[]>(
      ...([undefined, "created", "running", "paused", "exited"] as const),
    ),
    activity: activities,
    users: fc.array(fc.constantFrom("prompt of a", "hold of b"), { maxLength: 2 }),
    keptFor: fc.array(fc.constant("session of c"), { maxLength: 1 }),
    idleMs: durations,
    pressure: fc.constantFrom(undefined, "memory runs low"),
    halted: fc.constant(undefined),
    canPause: fc.boolean(),
    policy: fc.record({
      pauseAfterMs: limits,
      stopAfterMs: limits,
      quarantineMs: durations,
      // Bounded, because a longer time only means more looks.
      failedBootKeepMs: fc.integer({ min: 0, max: 60 * MINUTE_MS }),
      silentMs: fc.integer({ min: 0, max: 10 * MINUTE_MS }),
    }),
  })
  // As in the store, only a usable sandbox has leases, and only a draining one is replaced.
  .map((world) => {
    const phase = world.known?.phase
    const isUsable = phase && !["quarantined", "stopping", "gone"].includes(phase)
    return {
      ...world,
      users: isUsable ? world.users : [],
      keptFor: isUsable ? world.keptFor : [],
      known: world.known && {
        ...world.known,
        isReplaced: phase === "draining" && world.known.isReplaced,
      },
    }
  })
const truths = fc.constantFrom<Truth[]>("active", "none", "silent")

const TAKES_AWAY = new Set(["stop", "remove", "pause", "quarantine", "forget"])

/** More steps than any world takes to settle at one moment. */
const MAX_STEPS = 8
/** A silent sandbox is asked every five seconds for as long as the policy says. Other looks are few. */
const MAX_LOOKS = 10 * 12 + 30

/** Applies decisions until there is nothing more to do at that moment. */
const settle = (start: World, truth: Truth): { world: World; decisions: Decision[] } => {
  const decisions: Decision[] = []
  let world = start
  for (;;) {
    const decision = decide(world)
    decisions.push(decision)
    if (decision.action.kind === "keep" || decisions.length > MAX_STEPS) return { world, decisions }
    world = apply(world, decision.action, truth)
  }
}

describe("decide, in any world", () => {
  it("[R1.7] takes a kept sandbox away only where it is stale and its successor was asked for", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const { known, keptFor, users } = world
        if (known === undefined || keptFor.length === 0 || users.length > 0) return
        const { action } = decide(world)
        const isStale =
          known.isReplaced ||
          (known.desiredHash !== undefined && known.desiredHash !== known.configHash)
        if (isStale && known.isSuccessorAsked) {
          if (action.kind === "stop") expect(action.isAsked).toBe(true)
          expect(action.kind).not.toBe("drain")
        } else expect(TAKES_AWAY.has(action.kind)).toBe(false)
      }),
      { numRuns: 5_000 },
    )
  })

  it("[R1.6] takes no sandbox away that is in use", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        if (world.known === undefined || world.users.length === 0) return
        const { kind } = decide(world).action
        expect(TAKES_AWAY.has(kind)).toBe(false)
        const isDead = world.state === undefined || ["created", "exited"].includes(world.state)
        if (kind === "bury") expect(isDead).toBe(true)
      }),
      { numRuns: 5_000 },
    )
  })

  it("[R1.10] ends no unknown sandbox as long as something is active in it", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        if (world.known !== undefined || world.activity.kind !== "active") return
        const isRunning = world.state === "running" || world.state === "paused"
        if (isRunning) expect(["adopt", "resume"]).toContain(decide(world).action.kind)
      }),
      { numRuns: 5_000 },
    )
  })

  it("gives a reason, and a time above zero until the next look if there is one", () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const { reason, againInMs = 1 } = decide(world)
        expect(reason).not.toBe("")
        expect(againInMs).toBeGreaterThan(0)
      }),
      { numRuns: 5_000 },
    )
  })

  it("settles within eight steps, and stays settled", () => {
    fc.assert(
      fc.property(worlds, truths, (start, truth) => {
        const { world, decisions } = settle(start, truth)
        expect(decisions.length).toBeLessThanOrEqual(MAX_STEPS)
        expect(decide(world)).toEqual(decisions.at(-1))
      }),
      { numRuns: 5_000 },
    )
  })

  it("repeats no action but keep and ask as time passes, and ends with nothing to do", () => {
    fc.assert(
      fc.property(worlds, truths, (start, truth) => {
        const done: string[] = []
        let world = start
        for (let looks = 0; ; looks += 1) {
          expect(looks).toBeLessThan(MAX_LOOKS)
          const { world: settled, decisions } = settle(world, truth)
          done.push(...decisions.map(({ action }) => action.kind))
          const { againInMs } = decisions.at(-1) as Decision
          if (againInMs === undefined) break
          world = later(settled, againInMs)
        }
        const once = done.filter((kind) => kind !== "keep" && kind !== "query")
        expect(once).toEqual([...new Set(once)])
      }),
      { numRuns: 2_000 },
    )
  })
})
