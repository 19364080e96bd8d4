import { type BootEvent, BootTrace, StepOutcome } from "@berth/protocol/boot"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { ManualClock } from "../processes/testing/manual-clock.ts"
import { buildGraph } from "./graph.ts"
import { runBoot } from "./run.ts"
import type { Step, StepReport } from "./step.ts"

const TIMEOUT_MS = 100
const GRACE_MS = 30

/** The behaviour of a step: it ends by itself after a while, or waits for its signal and ends some time later. */
interface Script {
  readonly needs: readonly number[]
  readonly required: boolean
  readonly kind: "succeed" | "skip" | "throw" | "wait" | "ignore"
  /** The time until the step ends by itself, or for the kind `wait`, from the signal to its end. */
  readonly ms: number
}

const script = (index: number) =>
  fc.record<Script>({
    needs: index === 0 ? fc.constant([]) : fc.uniqueArray(fc.nat(index - 1), { maxLength: 3 }),
    required: fc.boolean(),
    kind: fc.oneof(
      { weight: 8, arbitrary: fc.constant("succeed" as const) },
      { weight: 1, arbitrary: fc.constantFrom("skip", "throw", "wait", "ignore") },
    ),
    // Above the time limit as well, so that some miss it.
    ms: fc.integer({ min: 0, max: TIMEOUT_MS + 10 }),
  })

interface Given {
  readonly steps: readonly Script[]
  /** The order of the steps in the list that the graph is built from. */
  readonly order: readonly number[]
  readonly cancelAtMs: number | null
}

const scripts: fc.Arbitrary<Given> = fc.integer({ min: 0, max: 12 }).chain((count) =>
  fc.record({
    steps: fc.tuple(...Array.from({ length: count }, (_, index) => script(index))),
    order: fc.shuffledSubarray(
      Array.from({ length: count }, (_, index) => index),
      { minLength: count, maxLength: count },
    ),
    cancelAtMs: fc.option(fc.integer({ min: 0, max: 400 }), { freq: 2 }),
  }),
)

const play = async ({ steps, order, cancelAtMs }: Given) => {
  const clock = new ManualClock()
  const inside = new Set<string>()
  const body = ({ kind, ms }: Script, signal: AbortSignal) =>
    new Promise<StepReport>((resolve, reject) => {
      if (kind === "succeed") clock.after(ms, () => resolve({ did: "done" }))
      if (kind === "skip") clock.after(ms, () => resolve({ skipped: "nothing to do" }))
      if (kind === "throw") clock.after(ms, () => reject(new Error("broken")))
      if (kind === "wait")
        signal.addEventListener("abort", () => clock.after(ms, () => reject(signal.reason)))
    })
  const all = steps.map(
    (given, index): Step<undefined> => ({
      name: `s${index}`,
      needs: given.needs.map((need) => `s${need}`),
      required: given.required,
      timeoutMs: TIMEOUT_MS,
      run: async (_, signal) => {
        inside.add(`s${index}`)
        try {
          return await body(given, signal)
        } finally {
          inside.delete(`s${index}`)
        }
      },
    }),
  )
  const cancel = new AbortController()
  if (cancelAtMs !== null) clock.after(cancelAtMs, () => cancel.abort("stop"))
  const events: BootEvent[] = []
  const run = runBoot({
    mode: "fresh",
    context: undefined,
    clock,
    startedAt: new Date(0),
    graph: buildGraph(order.map((index) => all[index] as Step<undefined>)),
    signal: cancel.signal,
    onEvent: (event) => events.push(event),
    cancelGraceMs: GRACE_MS,
  })
  const result = run.ended.then((trace) => ({
    trace: BootTrace.parse(trace),
    insideAtEnd: [...inside],
  }))
  await clock.runOut()
  return { ...(await result), events, ready: await run.ready }
}

const check = (property: (outcome: Awaited<ReturnType<typeof play>>, given: Given) => void) =>
  fc.assert(
    fc.asyncProperty(scripts, async (given) => property(await play(given), given)),
    { numRuns: 300 },
  )

describe("a boot of any graph, whatever its steps do", () => {
  it("[R2.1] starts a step at the moment when all steps that it needs have ended well", () =>
    check(({ trace }) => {
      const byName = new Map(trace.steps.map((step) => [step.name, step]))
      for (const step of trace.steps) {
        const needs = step.needs.map((name) => byName.get(name))
        const isSatisfied = needs.every(
          (need) =>
            need?.state === "succeeded" || (need?.state === "skipped" && need.startedAtMs !== null),
        )
        const satisfiedAtMs = Math.max(0, ...needs.map((need) => need?.endedAtMs ?? 0))
        if (step.startedAtMs !== null) {
          expect(isSatisfied).toBe(true)
          expect(step.startedAtMs).toBe(satisfiedAtMs)
        } else if (isSatisfied) expect(trace.ending?.atMs).toBeLessThanOrEqual(satisfiedAtMs)
      }
    }))

  it("[R2.9] leaves no step running except those that it calls abandoned", () =>
    check(({ trace, insideAtEnd }) => {
      const abandoned = trace.steps.filter((step) => step.abandoned).map(({ name }) => name)
      // An abandoned step may have ended since.
      expect(insideAtEnd.filter((name) => !abandoned.includes(name))).toEqual([])
    }))

  it("[R2.13] gives every step exactly one outcome, in the trace and live", () =>
    check(({ trace, events }) => {
      const ends = events.filter((event) => event.type === "boot.step.ended")
      expect(ends.map(({ step }) => step).sort()).toEqual(trace.steps.map((s) => s.name).sort())
      for (const { step, outcome, detail } of ends)
        expect(trace.steps.find(({ name }) => name === step)).toMatchObject({
          state: outcome,
          detail,
        })
      for (const { state } of trace.steps) expect(StepOutcome.options).toContain(state)
      expect(events.filter(({ type }) => type === "boot.ended")).toHaveLength(1)
      expect(events.at(-1)?.type).toBe("boot.ended")
    }))

  it("[R2.9] ends in time, with the outcome that its steps and its caller gave it", () =>
    check(({ trace, ready }, { cancelAtMs }) => {
      const required = trace.steps.filter((step) => step.required)
      const allDone = required.every(
        ({ state, startedAtMs }) =>
          state === "succeeded" || (state === "skipped" && startedAtMs !== null),
      )
      expect(ready).toBe(trace.readyAtMs !== null)
      if (trace.outcome === "succeeded") {
        expect(trace.ending).toBeNull()
        expect(allDone).toBe(true)
        expect(ready).toBe(true)
      }
      if (trace.outcome === "failed")
        expect(required.map(({ name }) => name)).toContain(trace.ending?.step)
      if (trace.outcome === "cancelled") expect(trace.ending?.atMs).toBe(cancelAtMs)
      if (trace.ending !== null) {
        expect(trace.endedAtMs).toBeLessThanOrEqual(trace.ending.atMs + GRACE_MS)
        const others = trace.steps.map(({ name }) => name).filter((n) => n !== trace.ending?.step)
        expect(trace.ending.others.map(({ name }) => name)).toEqual(others)
      }
      for (const { startedAtMs, endedAtMs } of trace.steps)
        if (startedAtMs !== null && endedAtMs !== null)
          expect(endedAtMs - startedAtMs).toBeLessThanOrEqual(TIMEOUT_MS + GRACE_MS)
    }))

  it("[R2.9] tells a failed optional step from a failed boot, and warns of each", () =>
    check(({ trace }) => {
      const isWorthAWarning = (step: BootTrace["steps"][number]) =>
        !step.required &&
        (step.state === "failed" || step.detail.startsWith("not started: it needs"))
      const warned = trace.warnings.map(({ step }) => step ?? "").sort()
      expect(warned).toEqual(
        trace.steps
          .filter(isWorthAWarning)
          .map(({ name }) => name)
          .sort(),
      )
      const requiredFailed = trace.steps.some((s) => s.required && s.state === "failed")
      if (requiredFailed) expect(trace.outcome).not.toBe("succeeded")
    }))
})
