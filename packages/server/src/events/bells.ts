/** Lets callers wait until something happens to a key. */
export class Bells<Key> {
  readonly #waiting = new Map<Key, Set<() => void>>()

  ring(key: Key): void {
    const waiting = this.#waiting.get(key)
    this.#waiting.delete(key)
    for (const wake of waiting ?? []) wake()
  }

  /** Resolves when the key is rung next, or when the signal fires. */
  next(key: Key, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(key) ?? new Set()
      this.#waiting.set(key, waiting)
      const wake = () => {
        signal.removeEventListener("abort", leave)
        resolve()
      }
      const leave = () => {
        waiting.delete(wake)
        if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key)
        resolve()
      }
      waiting.add(wake)
      signal.addEventListener("abort", leave, { once: true })
      if (signal.aborted) leave()
    })
  }
}
