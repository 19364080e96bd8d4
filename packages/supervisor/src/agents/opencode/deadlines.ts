import type { Clock } from "../../processes/clock.ts"

/** Named timers, one of each name at a time, which can all be cancelled at once. */
export class Deadlines {
  readonly #clock: Clock
  readonly #pending = new Map<string, () => void>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Starts a timer. If one of that name is pending, it stays as it is. */
  set(name: string, ms: number, call: () => void): void {
    if (!this.#pending.has(name)) this.#pending.set(name, this.#clock.after(ms, call))
  }

  clear(name: string): void {
    this.#pending.get(name)?.()
    this.#pending.delete(name)
  }

  clearAll(): void {
    for (const name of [...this.#pending.keys()]) this.clear(name)
  }
}
