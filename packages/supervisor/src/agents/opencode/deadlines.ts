import type { Clock } from "../../processes/clock.ts"

/** Named calls to come, each once at a time, all of which can be taken back at once. */
export class Deadlines {
  readonly #clock: Clock
  readonly #pending = new Map<string, () => void>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** One that is pending stays as it is. */
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
