import type { BootEnding, BootEvent, BootMode, BootOutcome, BootTrace } from "@berth/protocol/boot"
import { MAX_BOOT_WARNINGS } from "@berth/protocol/boot-limits"
import { BerthError } from "@berth/protocol/errors"
import type { Clock } from "../processes/clock.ts"
import { type Attempt, attempt, type Result } from "./attempt.ts"
import type { BootGraph } from "./graph.ts"
import { LiveOutput } from "./live-output.ts"
import { outcomeOf } from "./outcome.ts"
import { clip, clipFacts, StepRecord, wordsOf } from "./record.ts"
import type { Tell } from "./step.ts"

/**
 * How long a cancelled step may take to end. Covers the grace of a step's own command before it is killed
 * (COMMAND_STOP_GRACE_MS), and stays below the grace that an engine gives a sandbox to stop.
 */
export const CANCEL_GRACE_MS = 5_000

export interface BootOptions<Context> {
  readonly mode: BootMode
  readonly graph: BootGraph<Context>
  /** The steps' dependencies. The runner only passes them on. */
  readonly context: Context
  readonly clock: Clock
  /** The wall clock's time now. */
  readonly startedAt: Date
  /** Ends the boot: every running step is cancelled and awaited. */
  readonly signal?: AbortSignal
  /** Called with every event as it happens. */
  readonly onEvent?: (event: BootEvent) => void
  readonly cancelGraceMs?: number
}

export interface BootRun {
  /**
   * Resolves with true as soon as the last required step has succeeded, though optional ones may still run, and with
   * false if the boot ends before that.
   */
  readonly ready: Promise<boolean>
  /** The whole trace, once no step runs any more. Never rejects. */
  readonly ended: Promise<BootTrace>
  /** The current trace. */
  trace(): BootTrace
}

/**
 * Runs the steps of a graph, each as soon as its needs are satisfied.
 *
 * A required step that fails or misses its time limit ends the boot, and so does the signal: no further step starts,
 * every running step is cancelled and awaited, and a step that ignores its cancellation longer than the grace is
 * abandoned and reported as such. An optional step that fails is a warning. An optional step that needs it is skipped;
 * a required step that needs it ends the boot.
 */
export const runBoot = <Context>(options: BootOptions<Context>): BootRun => {
  const run = new Run(options)
  run.begin()
  return { ready: run.ready.promise, ended: run.ended.promise, trace: () => run.trace() }
}

class Run<Context> {
  readonly ready = Promise.withResolvers<boolean>()
  readonly ended = Promise.withResolvers<BootTrace>()
  readonly #options: BootOptions<Context>
  readonly #beganAtMs: number
  readonly #records: readonly StepRecord<Context>[]
  readonly #byName: ReadonlyMap<string, StepRecord<Context>>
  readonly #running = new Map<StepRecord<Context>, Attempt>()
  readonly #warnings: BootTrace["warnings"] = []
  #outcome: BootOutcome = "running"
  #readyAtMs: number | null = null
  #endedAtMs: number | null = null
  #ending: BootEnding | null = null

  constructor(options: BootOptions<Context>) {
    this.#options = options
    this.#beganAtMs = options.clock.nowMs()
    this.#records = options.graph.steps.map((step) => new StepRecord(step))
    this.#byName = new Map(this.#records.map((record) => [record.step.name, record]))
  }

  begin(): void {
    const { signal } = this.#options
    if (signal?.aborted) this.#cancel()
    signal?.addEventListener("abort", this.#cancel, { once: true })
    this.#advance()
  }

  trace(): BootTrace {
    return {
      mode: this.#options.mode,
      startedAt: this.#options.startedAt.toISOString(),
      outcome: this.#outcome,
      readyAtMs: this.#readyAtMs,
      endedAtMs: this.#endedAtMs,
      ending: this.#ending,
      warnings: [...this.#warnings],
      steps: this.#records.map((record) => record.toTrace()),
    }
  }

  /**
   * Starts the steps that can start, skips those that never can, and notices the end. Needs come before their steps.
   */
  #advance(): void {
    for (const record of this.#records) {
      if (record.state !== "pending") continue
      const needs = record.step.needs.map((name) => this.#byName.get(name) as StepRecord<Context>)
      const lost = needs.find((need) => need.settled && !need.satisfied)
      if (lost !== undefined) this.#skipForNeed(record, lost)
      else if (needs.every((need) => need.satisfied)) this.#start(record)
    }
    if (this.#ending === null) this.#noticeReady()
    if (this.#records.every((record) => record.settled)) this.#end()
  }

  #start(record: StepRecord<Context>): void {
    const { context, clock, cancelGraceMs = CANCEL_GRACE_MS } = this.#options
    const { step } = record
    record.state = "running"
    record.startedAtMs = this.#nowMs()
    this.#emit({ type: "boot.step.started", atMs: record.startedAtMs, step: step.name })
    const live = new LiveOutput(clock, (text, leftOutBytes) =>
      this.#emit({
        type: "boot.step.output",
        atMs: this.#nowMs(),
        step: step.name,
        text,
        leftOutBytes,
      }),
    )
    const running = attempt({
      step,
      context,
      clock,
      cancelGraceMs,
      tell: this.#tellOf(record, live),
      onTimeout: (missed) => {
        if (step.required) this.#fail(record, withLastLine(missed.message, record))
      },
    })
    this.#running.set(record, running)
    // The step's synchronous part may have ended the boot, before there was anything to cancel.
    if (this.#ending !== null) running.cancel(this.#cancelled())
    void running.ended.then((result) => {
      live.close()
      this.#running.delete(record)
      this.#settle(record, running, result)
      this.#advance()
    })
  }

  #tellOf(record: StepRecord<Context>, live: LiveOutput): Tell {
    const step = record.step.name
    const whileRunning =
      <Said>(hear: (said: Said) => void) =>
      (said: Said) => {
        if (record.state === "running") hear(said)
      }
    return {
      progress: whileRunning((detail: string) => {
        record.detail = clip(detail)
        this.#emit({ type: "boot.step.progress", atMs: this.#nowMs(), step, detail: record.detail })
      }),
      output: whileRunning((chunk: Buffer) => {
        record.keep(chunk)
        live.write(chunk)
      }),
      warn: whileRunning((message: string) => this.#warn(step, message)),
    }
  }

  #settle(record: StepRecord<Context>, { cancelledFor }: Attempt, result: Result): void {
    const { step } = record
    const outcome = outcomeOf({
      result,
      cancelledFor,
      progress: record.detail,
      cancelGraceMs: this.#options.cancelGraceMs ?? CANCEL_GRACE_MS,
    })
    record.state = outcome.state
    record.endedAtMs = this.#nowMs()
    record.detail = clip(outcome.detail)
    record.error = outcome.error
    record.abandoned = result.kind === "abandoned"
    record.satisfied = outcome.satisfied
    if (result.kind === "reported") record.facts = clipFacts(result.report.facts)
    if (result.kind === "threw") record.keepSaid(result.thrown)
    this.#emit({
      type: "boot.step.ended",
      atMs: record.endedAtMs,
      step: step.name,
      outcome: outcome.state,
      detail: record.detail,
      ranMs: record.ranMs(record.endedAtMs),
    })
    if (outcome.state !== "failed") return
    if (step.required)
      this.#fail(record, `step ${step.name} failed: ${withLastLine(record.detail, record)}`)
    else this.#warn(step.name, `step ${step.name} failed: ${record.detail}`)
  }

  /** Skips a step whose need failed or did not run. If the step is required, the boot ends. */
  #skipForNeed(record: StepRecord<Context>, need: StepRecord<Context>): void {
    const why = `it needs ${need.step.name}, which ${need.state === "failed" ? "failed" : "did not run"}`
    this.#skip(record, `not started: ${why}`)
    const { name, required } = record.step
    if (required) this.#fail(record, `step ${name} could not start: ${why}: ${need.detail}`)
    else this.#warn(name, `step ${name} was skipped: ${why}`)
  }

  #skip(record: StepRecord<Context>, detail: string): void {
    record.state = "skipped"
    record.detail = clip(detail)
    this.#emit({
      type: "boot.step.ended",
      atMs: this.#nowMs(),
      step: record.step.name,
      outcome: "skipped",
      detail: record.detail,
      ranMs: 0,
    })
  }

  #fail(record: StepRecord<Context>, reason: string): void {
    this.#endEarly("failed", record.step.name, reason)
  }

  readonly #cancel = (): void => {
    const { signal } = this.#options
    this.#endEarly("cancelled", null, `the boot was cancelled: ${wordsOf(signal?.reason)}`)
    this.#advance()
  }

  /** Ends the boot early. Only the first reason counts: later failures happen in a boot that is ending already. */
  #endEarly(outcome: BootOutcome, step: string | null, reason: string): void {
    if (this.#ending !== null) return
    const atMs = this.#nowMs()
    const others = this.#records
      .filter((record) => record.step.name !== step)
      .map((record) => record.progress(atMs))
    this.#outcome = outcome
    this.#ending = { step, reason: clip(reason), atMs, others }
    this.#emit({ type: "boot.ending", atMs, ending: this.#ending })
    this.ready.resolve(false)
    for (const record of this.#records)
      if (record.state === "pending") this.#skip(record, `not started: ${reason}`)
    for (const running of this.#running.values()) running.cancel(this.#cancelled())
  }

  #cancelled(): BerthError {
    return new BerthError("cancelled", `cancelled because the boot ended: ${this.#ending?.reason}`)
  }

  #noticeReady(): void {
    if (this.#readyAtMs !== null) return
    if (this.#records.some(({ step, satisfied }) => step.required && !satisfied)) return
    this.#readyAtMs = this.#nowMs()
    this.#emit({ type: "boot.ready", atMs: this.#readyAtMs })
    this.ready.resolve(true)
  }

  #end(): void {
    if (this.#endedAtMs !== null) return
    this.#options.signal?.removeEventListener("abort", this.#cancel)
    if (this.#ending === null) this.#outcome = "succeeded"
    this.#endedAtMs = this.#nowMs()
    this.#emit({ type: "boot.ended", atMs: this.#endedAtMs, outcome: this.#outcome })
    this.ended.resolve(this.trace())
  }

  #warn(step: string | null, message: string): void {
    const warning = { step, message: clip(message) }
    if (this.#warnings.length < MAX_BOOT_WARNINGS) this.#warnings.push(warning)
    this.#emit({ type: "boot.warning", atMs: this.#nowMs(), ...warning })
  }

  /** Reports an event. An error of the listener must not harm the boot, and becomes a warning. */
  #emit(event: BootEvent): void {
    try {
      this.#options.onEvent?.(event)
    } catch (thrown) {
      const message = clip(`what watches the boot failed at ${event.type}: ${wordsOf(thrown)}`)
      if (this.#warnings.length < MAX_BOOT_WARNINGS) this.#warnings.push({ step: null, message })
    }
  }

  /** Milliseconds since the boot began, rounded to the clock's precision of microseconds. */
  #nowMs(): number {
    return Math.round((this.#options.clock.nowMs() - this.#beganAtMs) * 1000) / 1000
  }
}

/** Adds the last line of the step's own programs to a failure, unless the text has it already. */
const withLastLine = (said: string, { lastLine }: Pick<StepRecord<unknown>, "lastLine">): string =>
  lastLine === "" || said.includes(lastLine) ? said : `${said}; its last line: ${lastLine}`
