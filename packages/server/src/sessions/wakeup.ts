/** Lets one loop sleep until it is woken or a time is over. A call of `wake` while it is awake ends its next sleep. */
export class Wakeup {
  #isAwake = false
  #end: () => void = () => {}

  wake(): void {
    this.#isAwake = true
    this.#end()
  }

  /** Resolves when it is woken, or when the time is over. It may be infinite. */
  async sleep(ms: number): Promise<void> {
    if (!this.#isAwake) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#end = resolve
      const timer = Number.isFinite(ms)
        ? setTimeout(resolve, Math.max(0, Math.ceil(ms))).unref()
        : undefined
      await promise
      clearTimeout(timer)
    }
    this.#isAwake = false
  }
}
