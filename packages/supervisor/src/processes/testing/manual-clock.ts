import { setImmediate as turn } from "node:timers/promises"
import type { Clock } from "../clock.ts"

interface Timer {
  readonly atMs: number
  readonly call: () => void
}

/** A clock that moves only when told, so that hours pass in a test without waiting. */
export class ManualClock implements Clock {
  #nowMs = 0
  #timers: Timer[] = []

  nowMs(): number {
    return this.#nowMs
  }

  after(ms: number, call: () => void): () => void {
    const timer = { atMs: this.#nowMs + ms, call }
    this.#timers.push(timer)
    return () => this.#remove(timer)
  }

  get pendingTimers(): number {
    return this.#timers.length
  }

  /** Moves from timer to timer until there is none. Promises settle in between. */
  async runOut(): Promise<void> {
    await this.#callUntil(Infinity)
  }

  /** Moves on by that much, and calls the timers that fall due, in order. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    await this.#callUntil(untilMs)
    this.#nowMs = untilMs
  }

  async #callUntil(untilMs: number): Promise<void> {
    for (;;) {
      await turn()
      const [next] = this.#timers
        .filter(({ atMs }) => atMs <= untilMs)
        .sort((one, other) => one.atMs - other.atMs)
      if (next === undefined) return
      this.#remove(next)
      this.#nowMs = next.atMs
      next.call()
    }
  }

  #remove(timer: Timer): void {
    this.#timers = this.#timers.filter((other) => other !== timer)
  }
}
