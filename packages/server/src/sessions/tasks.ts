/** Work that goes on beside a loop, at the longest until it is closed. */
export class Tasks {
  readonly #over = new AbortController()
  readonly #signal: AbortSignal
  readonly #running = new Set<Promise<void>>()

  constructor(signal: AbortSignal) {
    this.#signal = AbortSignal.any([signal, this.#over.signal])
  }

  /** Begins work, which deals with its own failures: a rejection counts as an end. */
  begin(work: (signal: AbortSignal) => Promise<void>): void {
    const task = work(this.#signal)
      .catch(() => {})
      .finally(() => this.#running.delete(task))
    this.#running.add(task)
  }

  /** Fires the signal of all work, and resolves when it has ended. */
  async close(): Promise<void> {
    this.#over.abort()
    await Promise.all(this.#running)
  }
}
