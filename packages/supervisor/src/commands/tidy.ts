import type { Clock } from "../processes/clock.ts"

/** So many commands at once leave enough behind to be worth it. */
export const MANY_COMMANDS = 128
/** For connections that are about to close, and with them what they hold. */
export const TIDY_AFTER_MS = 250

/**
 * Gives back what many commands at once took. V8 keeps it until it needs more, as far from the supervisor's limit as
 * it is; and with every process that is started, the kernel copies the map of all memory that there is.
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

  /** Of how many run now. It is done once none does: then nobody waits for it. */
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

/** The flavour that moves what lives together: otherwise the pages stay, each with a little on it. */
const collectAll = (): void => {
  void globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" })
}
