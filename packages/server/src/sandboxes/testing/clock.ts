import type { Clock } from "../clock.ts"

/** A time of the test's own. */
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

  /** Somebody sets the wall's clock; or the host sleeps, in which the other one stands still. */
  jump(ms: number): void {
    this.#wallMs += ms
  }
}
