import type { BerthError } from "@berth/protocol/errors"
import type { Clock } from "../sandboxes/state/clock.ts"
import { errorOf } from "./failures.ts"
import type { Hindrance } from "./hindrance.ts"
import { type Limits, PASSING } from "./limits.ts"
import { newStanding, observe, refused, type Standing, succeeded } from "./standing.ts"
import { Tasks } from "./tasks.ts"
import type { Wakeup } from "./wakeup.ts"

export interface AttemptParts {
  readonly clock: Pick<Clock, "monotonicMs">
  readonly limits: Pick<Limits, "watch" | "stop">
}

/** One attempt to bring a prompt to its end: how far it is, and what it has under way. */
export class Attempt {
  standing: Standing
  readonly #parts: AttemptParts
  readonly #wakeup: Wakeup
  readonly #tasks: Tasks

  constructor(
    parts: AttemptParts,
    {
      wakeup,
      signal,
      hasLease,
    }: { readonly wakeup: Wakeup; readonly signal: AbortSignal; readonly hasLease: boolean },
  ) {
    this.#parts = parts
    this.#wakeup = wakeup
    this.#tasks = new Tasks(signal)
    this.standing = newStanding(this.nowMs, { hasLease })
  }

  get nowMs(): number {
    return this.#parts.clock.monotonicMs()
  }

  set(change: Partial<Standing>): void {
    this.standing = { ...this.standing, ...change }
    this.#wakeup.wake()
  }

  observe(
    hindrance: Hindrance | undefined,
    at: { readonly nowMs: number; readonly isStopRequested: boolean },
  ): void {
    this.standing = observe(this.standing, hindrance, at, this.#parts.limits)
  }

  /** Counts the silence of the sandbox anew. */
  forgetSilence(): void {
    this.set({ observed: { ...this.standing.observed, unheardMs: 0 } })
  }

  /** Begins the one call that may be under way. It resolves with what its success changes. */
  call(
    work: (signal: AbortSignal) => Promise<Partial<Standing>>,
    onRefused: (error: BerthError) => void = () => {},
  ): void {
    this.set({ isCalling: true })
    this.beside(async (signal) => {
      try {
        const change = await work(signal)
        this.standing = succeeded(this.standing, change)
      } catch (thrown) {
        if (signal.aborted) return
        const error = errorOf(thrown)
        onRefused(error)
        const hasWaited = PASSING.has(error.code)
        this.standing = refused(this.standing, error, { nowMs: this.nowMs, hasWaited })
      }
      this.#wakeup.wake()
    })
  }

  /** Begins work that goes on beside the calls, at the longest until the attempt is over. */
  beside(work: (signal: AbortSignal) => Promise<void>): void {
    this.#tasks.begin(work)
  }

  /** Ends all that is under way. */
  close(): Promise<void> {
    return this.#tasks.close()
  }
}
