import { collectGarbage } from "../features/collect-garbage.ts"
import type { Clock } from "../processes/clock.ts"

/** With this many commands at once, collecting garbage afterwards is worth it. */
export const MANY_COMMANDS = 128
/** Delay, so that connections that are about to close have released their memory. */
export const TIDY_AFTER_MS = 250

/**
 * Frees memory after many commands at once. V8 keeps it until it needs more, as it is far from the supervisor's limit;
 * and the kernel copies the map of all memory with every process that is started.
 */
export class Tidy {
  readonly #clock: Clock
  readonly #collect: () => void
  #isDue = false
  #takeBack = () => {}

  constructor(clock: Clock, collect: () => void = collectAll) {
    this.#clock = clock
    this.#collect = collect
  }

  /** Called with the number of running commands. Collects once none runs, so that nothing waits for it. */
  onCount(running: number): void {
    this.#takeBack()
    if (running >= MANY_COMMANDS) this.#isDue = true
    if (running > 0 || !this.#isDue) return
    this.#takeBack = this.#clock.after(TIDY_AFTER_MS, () => {
      this.#isDue = false
      this.#collect()
    })
  }

  close(): void {
    this.#takeBack()
  }
}

/** Collects all garbage. The flavor "last-resort" compacts: otherwise the pages stay, each with a little on it. */
const collectAll = (): void => {
  collectGarbage({ type: "major", flavor: "last-resort" })
}
