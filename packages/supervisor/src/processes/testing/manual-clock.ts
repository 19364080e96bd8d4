import { setImmediate as turn } from "node:timers/promises"
import type { Clock } from "../clock.ts"

interface Timer {
  readonly atMs: number
  readonly call: () => void
}

/** A clock that stands still until it is moved, so that hours pass in a test without any waiting. */
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

  /** Goes from timer to timer until there is none; what they set off settles in between. */
  async runOut(): Promise<void> {
    await this.#callUntil(Infinity)
  }

  /** Moves on by that much, calling what falls due on the way, in order. */
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
