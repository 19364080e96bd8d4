import { BerthError } from "@berth/protocol/errors"
import { pause } from "./clock.ts"
import { decideRestart, RESTART_POLICY } from "./decide-restart.ts"
import { type LifeEnd, live } from "./life.ts"
import { LogFile } from "./output/log-file.ts"
import { ByteRing } from "./output/ring.ts"
import {
  type ProcessEvent,
  type ProcessNews,
  type ProcessParts,
  type ProcessPhase,
  type ProcessSpec,
  type ProcessStatus,
  STOP_GRACE_MS,
  type StopOptions,
  type StopReport,
} from "./spec.ts"
import { NOTHING_ENDED, type TreeEnd } from "./tree/end.ts"
import type { ProcessTree } from "./tree/tree.ts"

/** Limit of the output that is kept in memory, for errors and status. */
export const LAST_OUTPUT_BYTES = 16 * 1024

/**
 * Keeps one process running: starts it, waits until it is ready, restarts it when it ends, and stops it with everything
 * that came from it. Each runs independently of the others.
 */
export class SupervisedProcess {
  readonly spec: ProcessSpec
  readonly #parts: ProcessParts
  readonly #lastOutput = new ByteRing(LAST_OUTPUT_BYTES)
  readonly #log: LogFile | undefined
  readonly #stopping = new AbortController()
  readonly #hurry = new AbortController()
  readonly #waiting = new Set<PromiseWithResolvers<void>>()
  #graceMs: number
  #tending: Promise<void> | undefined
  #stopped: Promise<StopReport> | undefined
  #tree: TreeEnd = NOTHING_ENDED
  #phase: ProcessPhase = "idle"
  #reason = ""
  #pid: number | undefined
  #grown: ProcessTree | undefined
  #starts = 0
  #failures = 0

  constructor(spec: ProcessSpec, parts: ProcessParts) {
    this.spec = spec
    this.#parts = parts
    this.#graceMs = spec.stopGraceMs ?? STOP_GRACE_MS
    const onProblem = (problem: string) => this.#emit({ type: "log-failed", problem })
    this.#log = spec.log && new LogFile({ ...spec.log, clock: parts.clock, onProblem })
  }

  /** Begins to keep the process running. A second call, or one after a stop, does nothing. */
  start(): void {
    this.#tending ??= this.#tend()
  }

  /**
   * Resolves when the process is ready. Rejects when it is given up or stopped, with its last output in the details, or
   * with the signal's reason.
   */
  async ready(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#phase === "ready") return
    const impossible = this.#neverReady()
    if (impossible !== undefined) throw impossible
    const waiting = Promise.withResolvers<void>()
    const cancel = () => waiting.reject(signal.reason)
    this.#waiting.add(waiting)
    signal.addEventListener("abort", cancel, { once: true })
    try {
      await waiting.promise
    } finally {
      this.#waiting.delete(waiting)
      signal.removeEventListener("abort", cancel)
    }
  }

  /**
   * Ends the process and everything that came from it: SIGTERM, the grace, SIGKILL. Works in any phase. A second call
   * waits for the same end.
   */
  stop({ graceMs, hurry }: StopOptions = {}): Promise<StopReport> {
    if (hurry?.aborted) this.#hurry.abort()
    hurry?.addEventListener("abort", () => this.#hurry.abort(), { once: true })
    this.#stopped ??= this.#stop(graceMs)
    return this.#stopped
  }

  status(): ProcessStatus {
    return {
      name: this.spec.name,
      phase: this.#phase,
      pid: this.#pid,
      starts: this.#starts,
      failures: this.#failures,
      reason: this.#reason,
    }
  }

  /** The process tree; undefined while the process does not run. */
  get grown(): ProcessTree | undefined {
    return this.#grown
  }

  lastOutput(): string {
    return this.#lastOutput.text()
  }

  async #stop(graceMs: number | undefined): Promise<StopReport> {
    const beganAtMs = this.#parts.clock.nowMs()
    const isGivenUp = this.#phase === "given-up"
    this.#graceMs = graceMs ?? this.#graceMs
    this.#tree = NOTHING_ENDED
    if (!isGivenUp) this.#enter("stopping", "it was asked to stop")
    this.#stopping.abort()
    await this.#tending
    await this.#log?.close()
    if (!isGivenUp) this.#enter("stopped", "it was asked to stop")
    const tookMs = this.#parts.clock.nowMs() - beganAtMs
    const report = { name: this.spec.name, ...this.#tree, tookMs }
    this.#emit({ type: "stopped", report })
    return report
  }

  /** Runs the process again and again, until it is stopped or given up. Never rejects. */
  async #tend(): Promise<void> {
    const { clock, chance = Math.random } = this.#parts
    const stopping = this.#stopping.signal
    while (!stopping.aborted) {
      const { how, readyForMs } = await this.#live()
      if (stopping.aborted) return
      this.#emit({ type: "ended", how, readyForMs })
      const ended = { how, readyForMs, failures: this.#failures }
      const decision = decideRestart(this.spec.restart ?? RESTART_POLICY, ended, chance())
      this.#failures = decision.failures
      if (decision.action === "give-up") return this.#giveUp(decision.reason)
      this.#enter("backing-off", decision.reason)
      this.#emit({ type: "restarting", afterMs: decision.afterMs, reason: decision.reason })
      await pause(clock, decision.afterMs, stopping)
    }
  }

  async #live(): Promise<LifeEnd> {
    this.#enter("starting", "")
    const end = await live(this.spec, {
      parts: this.#parts,
      stopping: this.#stopping.signal,
      graceMs: () => this.#graceMs,
      hurry: this.#hurry.signal,
      onOutput: (chunk) => {
        this.#lastOutput.write(chunk)
        this.#log?.write(chunk)
      },
      onStarted: ({ pid, tree }) => {
        this.#pid = pid
        this.#grown = tree
        this.#starts++
        this.#emit({ type: "started", pid, start: this.#starts })
      },
      onReady: (afterMs) => {
        this.#enter("ready", "")
        this.#emit({ type: "ready", afterMs })
        for (const waiting of this.#waiting) waiting.resolve()
      },
    })
    this.#pid = undefined
    this.#grown = undefined
    this.#tree = end.tree
    if (end.tree.left.length > 0) this.#emit({ type: "left-behind", pids: end.tree.left })
    return end
  }

  #giveUp(reason: string): void {
    this.#enter("given-up", reason)
    this.#emit({ type: "given-up", reason, lastOutput: this.lastOutput() })
  }

  /** The error for callers of `ready`, if the process will never be ready. */
  #neverReady(): BerthError | undefined {
    const { name } = this.spec
    const details = { process: name, reason: this.#reason, lastOutput: this.lastOutput() }
    if (this.#phase === "given-up")
      return new BerthError("process.given_up", `${name} is given up: ${this.#reason}`, { details })
    if (this.#phase === "stopping" || this.#phase === "stopped")
      return new BerthError("process.stopped", `${name} was stopped`, { details })
    return undefined
  }

  #enter(phase: ProcessPhase, reason: string): void {
    this.#phase = phase
    this.#reason = reason
    const impossible = this.#neverReady()
    if (impossible !== undefined) for (const waiting of this.#waiting) waiting.reject(impossible)
  }

  /** Reports an event. An error of the listener must not harm the process. */
  #emit(news: ProcessNews): void {
    const event: ProcessEvent = { ...news, name: this.spec.name, atMs: this.#parts.clock.nowMs() }
    try {
      this.#parts.onEvent?.(event)
    } catch {}
  }
}
