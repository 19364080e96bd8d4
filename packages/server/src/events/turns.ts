import { setImmediate as soon } from "node:timers/promises"

/** How long readers may keep everybody else waiting: a tenth of what people notice. */
const TURN_MS = 5

/**
 * Runs the work of many readers one after another, and lets everybody else have a turn as soon as it has taken so
 * long. The store answers at once, so that hundreds of readers that begin together would otherwise be served before
 * anything else is.
 */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0
  #beganMs = 0

  async take<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#waiting === 0) this.#beganMs = performance.now()
    this.#waiting++
    const before = this.#last
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#last = promise
    await before
    try {
      if (performance.now() - this.#beganMs > TURN_MS) {
        await soon()
        this.#beganMs = performance.now()
      }
      return await work()
    } finally {
      this.#waiting--
      resolve()
    }
  }
}
