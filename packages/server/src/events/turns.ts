import { setImmediate as soon } from "node:timers/promises"

/** How long the work may keep everybody else waiting: a tenth of what people notice. */
const TURN_MS = 5

/** How long new connections may keep the work waiting after that. */
const ARRIVALS_MS = 100

/**
 * Runs work that does not wait for anything, one piece after another, and lets everybody else have a turn as soon as it
 * has taken so long. The store answers at once, so that what sandboxes say and hundreds of readers that begin together
 * would otherwise be served before anything else is.
 */
export class Turns {
  readonly #storing: (() => Promise<void>)[] = []
  readonly #reading: (() => Promise<void>)[] = []
  #isRunning = false
  #beganMs: number | undefined
  #hasArrivals = false

  /** To be called when a client has connected. */
  arrive(): void {
    this.#hasArrivals = true
  }

  /** Storing goes before reading, whose amount is for clients to choose. */
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
    // In the same turn as the last look at the queues, so that nothing is left behind.
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
   * The event loop takes one connection in each of its turns, so that a client who comes behind a few hundred new
   * connections would wait for as many pieces of work: others have turns until one of them brings no connection.
   */
  async #letOthers(): Promise<void> {
    const startedMs = performance.now()
    do {
      this.#hasArrivals = false
      await soon()
    } while (this.#hasArrivals && performance.now() - startedMs < ARRIVALS_MS)
  }
}
