import type { Clock } from "../state/clock.ts"

/** A clock that the test sets. */
export class FakeClock implements Clock {
  #wallMs = Date.UTC(2026, 0, 1)
  #monotonicMs = 5_000

  now(): number {
    return this.#wallMs
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  pass(ms: number): void {
    this.#wallMs += ms
    this.#monotonicMs += ms
  }

  /**
   * Moves the wall clock alone: somebody sets it, or the host sleeps, during which the monotonic clock stands still.
   */
  jump(ms: number): void {
    this.#wallMs += ms
  }
}
