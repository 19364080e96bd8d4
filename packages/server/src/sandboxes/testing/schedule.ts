import { setTimeout as pause, setImmediate as turn } from "node:timers/promises"

/** So long, in ms, timers are waited for when there is nothing else to do. */
const MAX_TIMERS = 6_000

/** Where somebody waits to go on; the schedule lets one go on at a time. */
export type Point = (name: string) => Promise<void>

/** Says which of so many goes on. The first is who follows from what went on last, if anybody does. */
export type Choose = (count: number) => number

interface Waiting {
  readonly name: string
  readonly go: () => void
}

/**
 * Runs everything that passes its points one at a time, in the order that `choose` says: between two points
 * nobody else does anything, so an order of points is an order of events.
 */
export class Schedule {
  readonly trace: string[] = []
  readonly #choose: Choose
  #waiting: Waiting[] = []
  #idlers: (() => void)[] = []
  #isHolding = false

  constructor(choose: Choose) {
    this.#choose = choose
  }

  readonly point: Point = (name) => {
    if (!this.#isHolding) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push({ name, go: resolve })
    return promise
  }

  /** From here on everybody waits at the points. */
  begin(): void {
    this.#isHolding = true
  }

  /** Resolves when nobody else has anything left to do. */
  idle(): Promise<void> {
    return new Promise((resolve) => this.#idlers.push(resolve))
  }

  /** Until nobody has anything left to do. `isDone`: nobody waits for a timer either. */
  async run(maxSteps: number, isDone: () => boolean): Promise<void> {
    let known = new Set<Waiting>()
    for (let step = 0, timers = 0; ; ) {
      // Whatever follows without passing a point happens first.
      await turn()
      const next = this.#waiting.filter((each) => !known.has(each))
      const others = this.#waiting.filter((each) => known.has(each))
      const ordered = [...next, ...others]
      if (ordered.length === 0) {
        const idler = this.#idlers.shift()
        if (idler !== undefined) idler()
        else if (isDone() || timers > MAX_TIMERS) return
        else {
          timers += 1
          await pause(1)
        }
        continue
      }
      const chosen = ordered[this.#choose(ordered.length)]
      if (chosen === undefined) throw new Error("chose nobody")
      if (++step > maxSteps) throw new Error(`never ends: ${this.trace.slice(-40).join(" ")}`)
      this.trace.push(chosen.name)
      this.#waiting = ordered.filter((each) => each !== chosen)
      known = new Set(this.#waiting)
      chosen.go()
    }
  }

  /** From here on nobody is held up. */
  end(): void {
    this.#isHolding = false
    for (const { go } of this.#waiting.splice(0)) go()
  }
}

/**
 * Every order in which, so many times at most, somebody else goes on than who would. Most faults of concurrent
 * code show with one or two. Each call of `run` is one order; resolves with how many there were.
 */
export const everyOrder = async (
  maxTurns: number,
  run: (choose: Choose) => Promise<void>,
): Promise<number> => {
  let prefix: number[] = []
  for (let orders = 1; ; orders += 1) {
    const made: { readonly chosen: number; readonly count: number }[] = []
    let turns = 0
    await run((count) => {
      const chosen = prefix[made.length] ?? 0
      made.push({ chosen, count: chosen === 0 && turns >= maxTurns ? 1 : count })
      if (chosen > 0) turns += 1
      return chosen
    })
    // The last choice that has another one left takes it; what came after begins anew.
    const last = made.findLastIndex(({ chosen, count }) => chosen + 1 < count)
    if (last === -1) return orders
    prefix = made.slice(0, last + 1).map(({ chosen }, at) => (at === last ? chosen + 1 : chosen))
  }
}

/** So many orders that are drawn. */
export const drawnOrders = async (
  orders: number,
  random: () => number,
  run: (choose: Choose) => Promise<void>,
): Promise<void> => {
  for (let order = 1; order <= orders; order += 1)
    await run((count) => Math.floor(random() * count))
}
