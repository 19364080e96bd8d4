import { AsyncLocalStorage } from "node:async_hooks"
import { setImmediate as turn } from "node:timers/promises"

/** The most timers that fire while there is nothing else to do. */
const MAX_TIMERS = 200

/** A place where an actor waits to go on. The schedule lets one go on at a time. */
export type Point = (name: string) => Promise<void>

/** Chooses which of `count` waiting steps goes on. The first one follows from the last step, if any does. */
export type Choose = (count: number) => number

/** Lets time pass until the next timer fires. */
export type PassTime = () => void

interface Waiting {
  readonly actor: string
  readonly name: string
  readonly isRead: boolean
  readonly go: (() => void)[]
}

/**
 * Runs everything that passes its points one at a time, in the order that `choose` says: between two points nobody else
 * does anything, so an order of points is an order of events.
 */
export class Schedule {
  readonly trace: string[] = []
  readonly #actors = new AsyncLocalStorage<string>()
  readonly #choose: Choose
  readonly #passTime: PassTime
  /** The waiting steps in the order in which they came; those of the last step are in `#arrived`. */
  #waiting: Waiting[] = []
  #arrived: Waiting[] = []
  #idlers: (() => void)[] = []
  #isHolding = false

  constructor(choose: Choose, passTime: PassTime) {
    this.#choose = choose
    this.#passTime = passTime
  }

  /** Lets an actor begin when the schedule chooses it. Whatever follows from its steps counts as the same actor's. */
  async enter(actor: string, act: () => Promise<void>): Promise<void> {
    await this.#actors.run(actor, async () => {
      await this.point("comes")
      await act()
    })
  }

  readonly point: Point = (name) => this.#wait(name, false)

  /** Reads that one actor makes at the same time are one step: reads change nothing for each other. */
  readonly readPoint: Point = (name) => this.#wait(name, true)

  #wait(name: string, isRead: boolean): Promise<void> {
    if (!this.#isHolding) return Promise.resolve()
    const actor = this.#actors.getStore() ?? "server"
    const { promise, resolve } = Promise.withResolvers<void>()
    const together = isRead && this.#arrived.find((each) => each.isRead && each.actor === actor)
    if (together) together.go.push(resolve)
    else this.#arrived.push({ actor, name, isRead, go: [resolve] })
    return promise
  }

  /** Makes everybody wait at the points from here on. */
  begin(): void {
    this.#isHolding = true
  }

  /** Resolves when nobody else has anything left to do. */
  idle(): Promise<void> {
    return new Promise((resolve) => this.#idlers.push(resolve))
  }

  /**
   * Runs until nobody has anything left to do. `isDone`: nobody waits for a timer either. Time passes only while
   * nothing else can be done.
   */
  async run(maxSteps: number, isDone: () => boolean): Promise<void> {
    for (let step = 0, timers = 0; ; ) {
      // Steps that follow without passing a point happen first.
      await turn()
      const ordered = [...this.#arrived.splice(0), ...this.#waiting]
      if (ordered.length === 0) {
        const idler = this.#idlers.shift()
        if (idler !== undefined) idler()
        else if (isDone() || timers > MAX_TIMERS) return
        else {
          timers += 1
          this.#passTime()
        }
        continue
      }
      const chosen = ordered[this.#choose(ordered.length)]
      if (chosen === undefined) throw new Error("chose nobody")
      if (++step > maxSteps) throw new Error(`never ends: ${this.trace.slice(-40).join(" ")}`)
      this.trace.push(`${chosen.actor}:${chosen.name}`)
      this.#waiting = ordered.filter((each) => each !== chosen)
      for (const go of chosen.go) go()
    }
  }

  /** Lets everybody go on without waiting from here on. */
  end(): void {
    this.#isHolding = false
    for (const { go } of [...this.#arrived.splice(0), ...this.#waiting.splice(0)])
      for (const goOn of go) goOn()
  }
}

interface Made {
  readonly chosen: number
  readonly count: number
}

/**
 * Runs every order with at most so many deviations: a step at which another actor goes on than the one that would. Most
 * faults of concurrent code show with one or two. Each call of `run` is one order; resolves with how many there were.
 */
export const everyOrder = async (
  maxDeviations: number,
  run: (choose: Choose) => Promise<void>,
): Promise<number> => {
  let before: readonly Made[] = []
  for (let orders = 1; ; orders += 1) {
    const made: Made[] = []
    await run((count) => {
      const known = before[made.length]
      if (known !== undefined && known.count !== count)
        throw new Error(`the same order went another way at step ${made.length + 1}`)
      const chosen = known?.chosen ?? 0
      made.push({ chosen, count })
      return chosen
    })
    const next = nextOf(made, maxDeviations)
    if (next === undefined) return orders
    before = next
  }
}

/**
 * The beginning of the next order: the last choice that has an alternative left takes it, and what came after is open
 * again.
 */
const nextOf = (made: readonly Made[], maxDeviations: number): readonly Made[] | undefined => {
  let deviations = made.filter(({ chosen }) => chosen > 0).length
  for (let at = made.length - 1; at >= 0; at -= 1) {
    const { chosen, count } = made[at] as Made
    if (chosen > 0) deviations -= 1
    if (chosen + 1 < count && deviations < maxDeviations)
      return [...made.slice(0, at), { chosen: chosen + 1, count }]
  }
  return undefined
}

/** Runs so many orders, drawn from those with at most so many deviations. */
export const drawnOrders = async (
  { orders, maxDeviations }: { readonly orders: number; readonly maxDeviations: number },
  random: () => number,
  run: (choose: Choose) => Promise<void>,
): Promise<void> => {
  const below = (limit: number) => Math.floor(random() * limit)
  // The order without a deviation says how many steps there are to deviate at.
  let steps = 0
  await run(() => {
    steps += 1
    return 0
  })
  for (let order = 1; order <= orders; order += 1) {
    const deviating = new Set(Array.from({ length: maxDeviations }, () => below(steps)))
    let step = 0
    await run((count) => (deviating.has(step++) && count > 1 ? 1 + below(count - 1) : 0))
  }
}
