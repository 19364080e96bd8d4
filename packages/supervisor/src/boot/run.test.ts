import { BootEvent, BootTrace, overlapMs } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { ManualClock } from "../processes/testing/manual-clock.ts"
import { buildGraph } from "./graph.ts"
import { CANCEL_GRACE_MS, runBoot } from "./run.ts"
import type { Step, StepReport, Tell } from "./step.ts"

type Play = (signal: AbortSignal, tell: Tell) => Promise<StepReport>

const boot = (
  plan: (clock: ManualClock) => Record<string, Partial<Step<undefined>> & { play?: Play }>,
  { cancelGraceMs }: { cancelGraceMs?: number } = {},
) => {
  const clock = new ManualClock()
  const cancel = new AbortController()
  const events: BootEvent[] = []
  const steps = Object.entries(plan(clock)).map(([name, { play, ...given }]): Step<undefined> => {
    const run: Step<undefined>["run"] = (_, signal, tell) =>
      play === undefined ? Promise.resolve({ did: `${name} done` }) : play(signal, tell)
    return { name, needs: [], required: true, timeoutMs: 10_000, run, ...given }
  })
  const run = runBoot({
    mode: "fresh",
    graph: buildGraph(steps),
    context: undefined,
    clock,
    startedAt: new Date(0),
    signal: cancel.signal,
    onEvent: (event) => events.push(BootEvent.parse(event)),
    ...(cancelGraceMs === undefined ? {} : { cancelGraceMs }),
  })
  const end = async () => {
    await clock.runOut()
    const trace = BootTrace.parse(await run.ended)
    const step = (name: string) => {
      const found = trace.steps.find((candidate) => candidate.name === name)
      if (found === undefined) throw new Error(`no step ${name}`)
      return found
    }
    return { trace, step }
  }
  return { clock, cancel, events, run, end }
}

const takes =
  (clock: ManualClock, ms: number, report: StepReport = { did: "done" }): Play =>
  () =>
    new Promise((resolve) => clock.after(ms, () => resolve(report)))

const failsAfter =
  (clock: ManualClock, ms: number, thrown: unknown = new Error("broken")): Play =>
  () =>
    new Promise((_, reject) => clock.after(ms, () => reject(thrown)))

/** Runs until it is cancelled, and then takes `windDownMs` to end. */
const untilCancelled =
  (clock: ManualClock, windDownMs = 0): Play =>
  (signal) =>
    new Promise((_, reject) =>
      signal.addEventListener("abort", () => clock.after(windDownMs, () => reject(signal.reason))),
    )

const ignoresCancel: Play = () => new Promise(() => {})

describe("runBoot", () => {
  it("[R2.1] runs independent steps at the same time and dependent ones in order", async () => {
    const { end } = boot((clock) => ({
      git: { play: takes(clock, 300) },
      sidecar: { play: takes(clock, 200) },
      hook: { needs: ["git"], play: takes(clock, 100) },
      ready: { needs: ["hook", "sidecar"] },
    }))
    const { trace, step } = await end()
    expect(trace.outcome).toBe("succeeded")
    expect(trace.steps.map((s) => [s.name, s.startedAtMs, s.endedAtMs])).toEqual([
      ["git", 0, 300],
      ["sidecar", 0, 200],
      ["hook", 300, 400],
      ["ready", 400, 400],
    ])
    expect(overlapMs(step("git"), step("sidecar"))).toBe(200)
    expect(overlapMs(step("git"), step("hook"))).toBe(0)
  })

  it("[R2.12] is ready with the last required step, while an optional step still runs", async () => {
    const { run, clock, events, end } = boot((clock) => ({
      agent: { play: takes(clock, 100) },
      editor: { required: false, play: takes(clock, 900) },
    }))
    await clock.advance(100)
    expect(await run.ready).toBe(true)
    expect(run.trace()).toMatchObject({ outcome: "running", readyAtMs: 100, endedAtMs: null })
    expect(run.trace().steps.map(({ state }) => state)).toEqual(["succeeded", "running"])
    expect(events.at(-1)).toEqual({ type: "boot.ready", atMs: 100 })
    expect((await end()).trace).toMatchObject({ outcome: "succeeded", endedAtMs: 900 })
  })

  it("[R2.9] ends with the reason and the last output of a required step that fails, and says how far every other step had come", async () => {
    const { end, run } = boot((clock) => ({
      files: { play: takes(clock, 50, { did: "linked 3 files", facts: { linked: 3 } }) },
      agent: {
        play: (signal, tell) => {
          tell.progress("listening on 4096")
          return untilCancelled(clock, 20)(signal, tell)
        },
      },
      hook: {
        needs: ["files"],
        play: (signal, tell) => {
          tell.output(Buffer.from("npm ERR! missing script\n"))
          return failsAfter(clock, 100, new Error("the hook ended with status 1"))(signal, tell)
        },
      },
      attach: { needs: ["hook", "agent"] },
    }))
    const { trace, step } = await end()
    expect(await run.ready).toBe(false)
    expect(trace).toMatchObject({ outcome: "failed", readyAtMs: null, endedAtMs: 170 })
    expect(trace.ending).toEqual({
      step: "hook",
      reason:
        "step hook failed: the hook ended with status 1; its last line: npm ERR! missing script",
      atMs: 150,
      others: [
        { name: "files", state: "succeeded", ranMs: 50, detail: "linked 3 files" },
        { name: "agent", state: "running", ranMs: 150, detail: "listening on 4096" },
        { name: "attach", state: "pending", ranMs: 0, detail: "" },
      ],
    })
    expect(step("hook")).toMatchObject({
      state: "failed",
      lastOutput: "npm ERR! missing script\n",
      outputBytes: 24,
      error: { code: "internal", message: "the hook ended with status 1" },
    })
    expect(step("files")).toMatchObject({ state: "succeeded", facts: { linked: 3 } })
    expect(step("agent")).toMatchObject({ state: "cancelled", endedAtMs: 170, abandoned: false })
    expect(step("agent").detail).toContain("it had come as far as: listening on 4096")
    expect(step("attach")).toMatchObject({ state: "skipped", startedAtMs: null, endedAtMs: null })
    expect(step("attach").detail).toBe(
      "not started: step hook failed: the hook ended with status 1; its last line: npm ERR! missing script",
    )
  })

  it("[R2.9] has cancelled and awaited every running step before it is over", async () => {
    const { events, end } = boot((clock) => ({
      slow: { play: untilCancelled(clock, 700) },
      slower: { play: untilCancelled(clock, 900) },
      broken: { play: failsAfter(clock, 10) },
    }))
    const { trace } = await end()
    expect(trace.endedAtMs).toBe(910)
    expect(events.map((event) => event.type)).toEqual([
      ...[
        "boot.step.started",
        "boot.step.started",
        "boot.step.started",
        "boot.step.ended",
        "boot.ending",
      ],
      ...["boot.step.ended", "boot.step.ended", "boot.ended"],
    ])
  })

  it("[R2.9] abandons a step that ignores its cancellation, after the grace, and says so", async () => {
    const { end } = boot((clock) => ({
      deaf: { play: ignoresCancel },
      broken: { play: failsAfter(clock, 10) },
    }))
    const { trace, step } = await end()
    expect(trace.endedAtMs).toBe(10 + CANCEL_GRACE_MS)
    expect(step("deaf")).toMatchObject({ state: "cancelled", abandoned: true })
    expect(step("deaf").detail).toContain(`ignored its cancellation for ${CANCEL_GRACE_MS} ms`)
  })

  it("[R2.9] cancels the others at the moment when a required step misses its time limit", async () => {
    const { end } = boot((clock) => ({
      hung: {
        timeoutMs: 1000,
        play: (signal, tell) => {
          tell.output(Buffer.from("waiting for the database\n"))
          return untilCancelled(clock, 300)(signal, tell)
        },
      },
      other: { play: untilCancelled(clock, 10) },
    }))
    const { trace, step } = await end()
    expect(trace.ending).toMatchObject({
      step: "hung",
      atMs: 1000,
      reason: "step hung did not end within 1000 ms; its last line: waiting for the database",
    })
    expect(step("other").endedAtMs).toBe(1010)
    expect(step("hung")).toMatchObject({
      state: "failed",
      endedAtMs: 1300,
      error: { code: "deadline.exceeded" },
    })
  })

  it("[R2.8] does not call a step that missed its time limit a success, and still says what it did", async () => {
    const { end } = boot((clock) => ({
      late: { timeoutMs: 100, play: takes(clock, 150, { did: "cloned" }) },
    }))
    const { step } = await end()
    expect(step("late").state).toBe("failed")
    expect(step("late").detail).toBe("step late did not end within 100 ms; it ended later: cloned")
  })

  it("[R2.8] reports a step as succeeded that finishes although it was cancelled", async () => {
    const { end } = boot((clock) => ({
      clone: { play: takes(clock, 30, { did: "cloned" }) },
      broken: { play: failsAfter(clock, 10) },
    }))
    expect((await end()).step("clone")).toMatchObject({ state: "succeeded", detail: "cloned" })
  })

  it("[R2.8] keeps the error of a cancelled step in its detail", async () => {
    const { end } = boot((clock) => ({
      clone: {
        play: (signal) =>
          new Promise((_, reject) =>
            signal.addEventListener("abort", () => reject(new Error("left a lock file"))),
          ),
      },
      broken: { play: failsAfter(clock, 10) },
    }))
    const { step } = await end()
    expect(step("clone").state).toBe("cancelled")
    expect(step("clone").detail).toContain("it said: left a lock file")
  })

  it("[R2.9] makes a warning of an optional step that fails or hangs, and goes on", async () => {
    const { end, events } = boot((clock) => ({
      editor: { required: false, play: failsAfter(clock, 10, new Error("no such file")) },
      terminal: { required: false, timeoutMs: 50, play: untilCancelled(clock) },
      agent: { play: takes(clock, 100) },
    }))
    const { trace, step } = await end()
    expect(trace).toMatchObject({ outcome: "succeeded", ending: null })
    expect(trace.warnings).toEqual([
      { step: "editor", message: "step editor failed: no such file" },
      { step: "terminal", message: "step terminal failed: step terminal did not end within 50 ms" },
    ])
    expect(step("editor").error?.message).toBe("no such file")
    expect(events.filter(({ type }) => type === "boot.warning")).toHaveLength(2)
  })

  it("[R2.9] skips an optional step whose need failed, and the steps that need it", async () => {
    const { end } = boot((clock) => ({
      cache: { required: false, play: failsAfter(clock, 10) },
      warm: { required: false, needs: ["cache"] },
      warmer: { required: false, needs: ["warm"] },
      agent: {},
    }))
    const { trace, step } = await end()
    expect(trace.outcome).toBe("succeeded")
    expect(step("warm")).toMatchObject({
      state: "skipped",
      startedAtMs: null,
      detail: "not started: it needs cache, which failed",
    })
    expect(step("warmer").detail).toBe("not started: it needs warm, which did not run")
  })

  it("[R2.9] ends the boot when a required step needs an optional one that failed", async () => {
    const { end } = boot((clock) => ({
      cache: { required: false, play: failsAfter(clock, 10, new Error("disk full")) },
      agent: { needs: ["cache"] },
    }))
    const { trace, step } = await end()
    expect(trace.ending).toMatchObject({
      step: "agent",
      reason: "step agent could not start: it needs cache, which failed: disk full",
    })
    expect(step("agent").state).toBe("skipped")
  })

  it("[R2.8] goes on after a step that had nothing to do, and calls it skipped", async () => {
    const { end } = boot((clock) => ({
      hook: { play: takes(clock, 5, { skipped: "the repo has no start hook" }) },
      agent: { needs: ["hook"] },
    }))
    const { trace, step } = await end()
    expect(trace.outcome).toBe("succeeded")
    expect(step("hook")).toMatchObject({ state: "skipped", startedAtMs: 0, endedAtMs: 5 })
    expect(step("agent").state).toBe("succeeded")
  })

  it("[R2.14] cancels and awaits the running steps and starts no other when it is cancelled from outside", async () => {
    const { cancel, clock, end } = boot((clock) => ({
      git: { play: untilCancelled(clock, 40) },
      hook: { needs: ["git"] },
    }))
    await clock.advance(100)
    cancel.abort("SIGTERM")
    cancel.abort("SIGTERM again")
    const { trace, step } = await end()
    expect(trace).toMatchObject({
      outcome: "cancelled",
      endedAtMs: 140,
      ending: { step: null, atMs: 100, reason: "the boot was cancelled: SIGTERM" },
    })
    expect(step("git").state).toBe("cancelled")
    expect(step("hook").state).toBe("skipped")
    expect(clock.pendingTimers).toBe(0)
  })

  it("[R2.14] starts no further step when it was cancelled before it began, or by its first step's first line", async () => {
    const clock = new ManualClock()
    const started: string[] = []
    const cancel = new AbortController()
    const graph = buildGraph<undefined>(
      ["a", "b"].map((name) => ({
        name,
        needs: [],
        required: true,
        timeoutMs: 1000,
        run: (_: undefined, signal: AbortSignal) => {
          started.push(name)
          cancel.abort("now")
          return untilCancelled(clock)(signal, {} as Tell)
        },
      })),
    )
    const options = {
      mode: "fresh",
      graph,
      context: undefined,
      clock,
      startedAt: new Date(0),
    } as const
    const first = runBoot({ ...options, signal: cancel.signal })
    await clock.runOut()
    expect((await first.ended).steps.map(({ state }) => state)).toEqual(["cancelled", "skipped"])
    expect(started).toEqual(["a"])
    const second = runBoot({ ...options, signal: AbortSignal.abort("before") })
    expect((await second.ended).steps.map(({ state }) => state)).toEqual(["skipped", "skipped"])
    expect(await second.ready).toBe(false)
    expect(started).toEqual(["a"])
  })

  it("counts the first reason only, when several required steps fail", async () => {
    const { end } = boot((clock) => ({
      one: { play: failsAfter(clock, 10, new Error("first")) },
      two: { play: failsAfter(clock, 20, new Error("second")) },
    }))
    const { trace, step } = await end()
    expect(trace.ending?.step).toBe("one")
    expect(step("two").state).toBe("cancelled")
    expect(step("two").detail).toContain("it said: second")
  })

  it("treats a step that throws at once like one that rejects, and keeps an error's code", async () => {
    const { end } = boot(() => ({
      hasty: {
        play: () => {
          throw new BerthError("process.start_failed", "no such command")
        },
      },
    }))
    const { step } = await end()
    expect(step("hasty").error).toMatchObject({ code: "process.start_failed" })
  })

  it("hears nothing from a step after its end", async () => {
    let late: Tell | undefined
    const { end, run } = boot((clock) => ({
      a: {
        play: (signal, tell) => {
          late = tell
          return takes(clock, 1)(signal, tell)
        },
      },
    }))
    const { trace } = await end()
    late?.progress("more")
    late?.warn("more")
    late?.output(Buffer.from("more"))
    expect(run.trace()).toEqual(trace)
  })

  it("survives a watcher that throws, and warns of it", async () => {
    const run = runBoot({
      mode: "fresh",
      context: undefined,
      clock: new ManualClock(),
      startedAt: new Date(0),
      graph: buildGraph<undefined>([]),
      onEvent: ({ type }) => {
        if (type === "boot.ready") throw new Error("socket closed")
      },
    })
    expect((await run.ended).warnings).toEqual([
      { step: null, message: "what watches the boot failed at boot.ready: socket closed" },
    ])
  })

  it("keeps the trace within its limits when a step floods it", async () => {
    const { end } = boot((clock) => ({
      loud: {
        required: false,
        play: (signal, tell) => {
          tell.output(Buffer.alloc(10_000_000, "x"))
          for (let n = 0; n < 1000; n++) tell.warn("w".repeat(10_000))
          tell.progress("p".repeat(10_000))
          return failsAfter(clock, 1, new Error("e".repeat(100_000)))(signal, tell)
        },
      },
    }))
    const { step } = await end()
    expect(step("loud")).toMatchObject({ outputBytes: 10_000_000 })
  })
})
