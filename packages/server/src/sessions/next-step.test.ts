import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { LIMITS } from "./limits.ts"
import { nextStep, type PromptFacts, type Step } from "./next-step.ts"
import { newStanding, type Observed, type Refusal, type Standing } from "./standing.ts"

const NOW_MS = 1_000_000
const id = newId.prompt()
const other = newId.prompt()
const queued: PromptFacts = { id, state: "queued", sandbox: null, isStopRequested: false }
const assigned: PromptFacts = { ...queued, sandbox: newId.sandbox() }
const stopRequested: PromptFacts = { ...assigned, state: "running", isStopRequested: true }
const stopOverdue: PromptFacts = { ...stopRequested, state: "stopped" }

const fresh = newStanding(NOW_MS, { hasLease: true })
const ready: Partial<Standing> = { isFollowing: true, isConnectionAwaited: true }
const started: Partial<Standing> = {
  ...ready,
  isStarted: true,
  isSettled: true,
  reported: { state: "started" },
}
const stopTaken: Partial<Standing> = { ...started, stopTakenMs: NOW_MS - 100 }
const ended: Partial<Standing> = {
  ...started,
  reported: { state: "ended", result: { state: "succeeded" } },
}

const busy = new BerthError("backend.unavailable", "the engine is not reached")
const draining = new BerthError("workspace.draining", "others use it")
const final = new BerthError("agent.changed", "another agent is there")
const broken = new BerthError("bridge.refused", "it cannot", { details: { code: "internal" } })
const refusal = (error: BerthError, agoMs: number, waitMs = 50): Refusal => ({
  error,
  atMs: NOW_MS - agoMs,
  waitMs,
})
const told = ({ code, message }: BerthError, prompt = id) => ({ prompt, code, message })
const observed = (change: Partial<Observed>): Observed => ({
  atMs: NOW_MS,
  hindrance: undefined,
  hinderedMs: 0,
  unheardMs: undefined,
  ...change,
})
const silent = { code: "bridge.unreachable", message: "it is not reached", forMs: 6_000 }

const wait = (inMs: number): Step => ({ kind: "wait", untilMs: NOW_MS + inMs })
const onChange: Step = { kind: "wait", untilMs: Number.POSITIVE_INFINITY }
const tellSilence = (prompt: typeof id): Step => ({
  kind: "tell wait",
  prompt,
  wait: { code: silent.code, message: silent.message },
  forMs: 6_000,
})

type Case = readonly [
  title: string,
  prompt: PromptFacts | undefined,
  standing: Partial<Standing>,
  step: Step,
]

const check = (cases: readonly Case[], heldUp = id) =>
  it.each(cases)("%s", (_, prompt, standing, step) => {
    const facts = { prompt, heldUp, standing: { ...fresh, ...standing }, nowMs: NOW_MS }
    expect(nextStep(facts, LIMITS)).toEqual(step)
  })

describe("a prompt that is over", () => {
  check([
    ["finishes", undefined, {}, { kind: "finish" }],
    ["finishes, though a call is under way", undefined, { isCalling: true }, { kind: "finish" }],
  ])
})

describe("a prompt without a sandbox", () => {
  const { patienceMs } = LIMITS
  const early = { sinceMs: NOW_MS - 1_000 }
  const late = { sinceMs: NOW_MS - patienceMs - 1_000 }
  const tell = ({ code, message }: BerthError): Step => ({
    kind: "tell wait",
    prompt: id,
    wait: { code, message },
    forMs: 0,
  })
  check([
    ["gets one", queued, {}, { kind: "assign" }],
    ["waits while it gets one", queued, { isCalling: true }, onChange],
    ["tells a refusal", queued, { ...early, refusal: refusal(busy, 10) }, tell(busy)],
    [
      "tells another refusal",
      queued,
      { ...early, refusal: refusal(draining, 10), told: told(busy) },
      tell(draining),
    ],
    [
      "waits after a refusal that was told",
      queued,
      { ...early, refusal: refusal(busy, 10), told: told(busy) },
      wait(40),
    ],
    [
      "tries again after that wait",
      queued,
      { ...early, refusal: refusal(busy, 50), told: told(busy) },
      { kind: "assign" },
    ],
    [
      "fails by a refusal that no repeat changes",
      queued,
      { ...early, refusal: refusal(final, 0) },
      { kind: "fail", error: final },
    ],
    [
      "fails when it was refused for longer than the patience",
      queued,
      { ...late, refusal: refusal(busy, 0), told: told(busy) },
      { kind: "fail", error: busy },
    ],
    [
      "is tried once more when the patience ends during the wait",
      queued,
      { sinceMs: NOW_MS - patienceMs - 10, refusal: refusal(busy, 50), told: told(busy) },
      { kind: "assign" },
    ],
    [
      "waits without end for a reason that passes by itself",
      queued,
      { ...late, refusal: refusal(draining, 10), told: told(draining) },
      wait(40),
    ],
  ])
})

describe("a prompt that is assigned to a sandbox", () => {
  const { watch, toldWithinMs } = LIMITS
  const inTime = { changedMs: NOW_MS - toldWithinMs + 10 }
  const inVain = { changedMs: NOW_MS - toldWithinMs }
  check([
    ["follows the sandbox first", assigned, {}, { kind: "follow sandbox" }],
    [
      "is interrupted when that is gone, whatever is under way",
      assigned,
      { ...started, isSandboxGone: true, isCalling: true, isEnforcing: true },
      {
        kind: "end",
        result: { state: "interrupted", reason: "its sandbox ended while it had it" },
      },
    ],
    ["takes its lease", assigned, { isFollowing: true, hasLease: false }, { kind: "take lease" }],
    [
      "waits after its lease was refused",
      assigned,
      { isFollowing: true, hasLease: false, refusal: refusal(busy, 10) },
      wait(40),
    ],
    ["awaits the connection", assigned, { isFollowing: true }, { kind: "await connection" }],
    ["is sent", assigned, ready, { kind: "start" }],
    ["is looked at while it is being sent", assigned, { ...ready, isCalling: true }, wait(1_000)],
    ["waits after a break", assigned, { ...ready, refusal: refusal(busy, 10) }, wait(40)],
    ["is sent again", assigned, { ...ready, refusal: refusal(busy, 50) }, { kind: "start" }],
    [
      "fails if the supervisor cannot run it",
      assigned,
      { ...ready, refusal: refusal(broken, 0) },
      { kind: "fail", error: broken },
    ],
    ["runs, and is looked at", assigned, started, wait(watch.lookEveryMs)],
    ["waits for the event of its end", assigned, { ...ended, ...inTime }, wait(10)],
    [
      "ends without that event after a while",
      assigned,
      { ...ended, ...inVain },
      { kind: "end", result: { state: "succeeded" } },
    ],
  ])
})

describe("a prompt whose stop is asked for", () => {
  const { stop, askAgainMs } = LIMITS
  check([
    [
      "awaits the connection first",
      stopRequested,
      { isFollowing: true },
      { kind: "await connection" },
    ],
    ["is stopped, and not sent", stopRequested, ready, { kind: "stop" }],
    ["is stopped when it runs", stopRequested, started, { kind: "stop" }],
    ["is stopped when it has ended", stopRequested, ended, { kind: "stop" }],
    [
      "ends if the sandbox does not know it",
      stopRequested,
      { ...ready, stopTakenMs: NOW_MS },
      { kind: "end", result: { state: "stopped" } },
    ],
    ["is looked at more often", stopRequested, stopTaken, wait(stop.lookEveryMs)],
    [
      "is asked for again",
      stopRequested,
      { ...stopTaken, stopTakenMs: NOW_MS - askAgainMs },
      { kind: "stop" },
    ],
    [
      "waits for the event of its end",
      stopRequested,
      { ...ended, stopTakenMs: NOW_MS - askAgainMs },
      wait(stop.lookEveryMs),
    ],
  ])
})

describe("a stop without an answer", () => {
  const { stopWithinMs, giveUpAfterMs, lookEveryMs } = LIMITS.stop
  const calling = { ...started, isSettled: false, isCalling: true }
  const unheard = (unheardMs: number) => ({ ...calling, observed: observed({ unheardMs }) })
  const late = unheard(stopWithinMs)
  check([
    ["is waited for", stopRequested, unheard(stopWithinMs - 1), wait(lookEveryMs)],
    [
      "is enforced in time, though the call is under way",
      stopRequested,
      late,
      { kind: "end overdue" },
    ],
    [
      "is enforced before followers are told of the silence",
      stopRequested,
      { ...calling, observed: observed({ unheardMs: stopWithinMs, hindrance: silent }) },
      { kind: "end overdue" },
    ],
    [
      "is enforced once at a time",
      stopRequested,
      { ...late, isEnforcing: true },
      wait(lookEveryMs),
    ],
    [
      "is enforced again only after a pause",
      stopRequested,
      { ...late, enforceAtMs: NOW_MS + 1 },
      wait(lookEveryMs),
    ],
    [
      "ends the processes of a prompt that an earlier server ended",
      stopOverdue,
      late,
      { kind: "end overdue" },
    ],
    [
      "waits before it tries again to end the processes",
      stopOverdue,
      { ...late, endProcessesAtMs: NOW_MS + 1 },
      wait(lookEveryMs),
    ],
    [
      "leaves the sandbox for longer than the processes",
      stopOverdue,
      { ...late, endProcessesAtMs: undefined },
      wait(lookEveryMs),
    ],
    [
      "ends the sandbox then",
      stopOverdue,
      { ...unheard(giveUpAfterMs), endProcessesAtMs: undefined },
      { kind: "give up sandbox" },
    ],
    [
      "ends the sandbox also while an attempt to end the processes is still to come",
      stopOverdue,
      { ...unheard(giveUpAfterMs), endProcessesAtMs: NOW_MS + 1 },
      { kind: "give up sandbox" },
    ],
    [
      "is sent until the sandbox confirms it",
      stopOverdue,
      { ...stopTaken, stopTakenMs: NOW_MS - LIMITS.askAgainMs },
      { kind: "stop" },
    ],
    [
      "fails no prompt that has ended",
      stopOverdue,
      { ...ready, refusal: refusal(broken, 0) },
      wait(50),
    ],
  ])
})

describe("a sandbox that does nothing for its prompt", () => {
  const { tellAfterMs, lookEveryMs } = LIMITS.watch
  const hindrance = { code: busy.code, message: busy.message }
  const hindered = { ...started, observed: observed({ hindrance: silent }) }
  const toldSilence = { prompt: id, code: silent.code, message: silent.message }
  check([
    ["is told to followers", assigned, hindered, tellSilence(id)],
    ["is told once", assigned, { ...hindered, told: toldSilence }, wait(lookEveryMs)],
    [
      "is told again for another reason",
      assigned,
      { ...hindered, told: told(busy) },
      tellSilence(id),
    ],
    [
      "is not told before it was hindered for a while",
      assigned,
      { ...started, observed: observed({ hindrance, hinderedMs: tellAfterMs - 1 }) },
      wait(lookEveryMs),
    ],
    [
      "is told when it was hindered for a while",
      assigned,
      { ...started, observed: observed({ hindrance, hinderedMs: tellAfterMs }) },
      { kind: "tell wait", prompt: id, wait: hindrance, forMs: tellAfterMs },
    ],
    [
      "is no more to be told of when it answers",
      assigned,
      { ...started, told: toldSilence },
      { kind: "clear wait" },
    ],
  ])
})

describe("a sandbox that does not confirm a stop, with a prompt behind it", () => {
  const hindered = { ...stopTaken, observed: observed({ hindrance: silent }) }
  const toldBefore = { prompt: id, code: silent.code, message: silent.message }
  check(
    [
      [
        "is told of that prompt",
        stopOverdue,
        { ...hindered, told: toldBefore },
        tellSilence(other),
      ],
    ],
    other,
  )
})
