import { setImmediate as soon } from "node:timers/promises"

/** The longest that this work may keep everybody else waiting: a tenth of what people notice. */
const TURN_MS = 5

/** The longest that new connections may keep this work waiting after that. */
const ARRIVALS_MS = 100

/**
 * Runs pieces of work that wait for nothing, one after another, and lets everybody else have a turn after each TURN_MS.
 * The store answers at once, so that storing events and serving hundreds of readers that begin together would otherwise
 * come before everything else.
 */
export class Turns {
  readonly #storing: (() => Promise<void>)[] = []
  readonly #reading: (() => Promise<void>)[] = []
  #isRunning = false
  #beganMs: number | undefined
  #hasArrivals = false

  /** Called when a client has connected. */
  arrive(): void {
    this.#hasArrivals = true
  }

  /** Queues a piece of work. Storing goes before reading, because clients choose how much is read. */
  take<Result>(kind: "store" | "read", work: () => Promise<Result>): Promise<Result> {
    return new Promise((resolve, reject) => {
      const queue = kind === "store" ? this.#storing : this.#reading
      queue.push(() => work().then(resolve, reject))
      if (!this.#isRunning) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    for (;;) {
      const beganMs = this.#begin()
      if (performance.now() - beganMs > TURN_MS) {
        await this.#letOthers()
        this.#beganMs = undefined
      }
      const work = this.#storing.shift() ?? this.#reading.shift()
      if (work === undefined) break
      await work()
    }
    // Set in the same turn as the last check of the queues, so that no work is left behind.
    this.#isRunning = false
  }

  /** When the work of this turn of the event loop began. */
  #begin(): number {
    if (this.#beganMs === undefined) {
      this.#beganMs = performance.now()
      setImmediate(() => {
        this.#beganMs = undefined
      })
    }
    return this.#beganMs
  }

  /**
   * Lets others have turns until one of them brings no new connection. The event loop accepts one connection in each
   * turn, so that a client behind a few hundred new ones would wait for as many pieces of work.
   */
  async #letOthers(): Promise<void> {
    const startedMs = performance.now()
    do {
      this.#hasArrivals = false
      await soon()
    } while (this.#hasArrivals && performance.now() - startedMs < ARRIVALS_MS)
  }
}
