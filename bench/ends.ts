import { messageOf } from "./message.ts"

/** The clean-ups that run when a benchmark ends. */
export class Ends {
  #cleanUps: (() => unknown)[] = []
  #ended = false

  /** Adds a clean-up. A preparation that was given up may still make things, so a late clean-up runs at once. */
  readonly add = (cleanUp: () => unknown): void => {
    this.#cleanUps.push(cleanUp)
    if (this.#ended) void this.run()
  }

  /** Runs all clean-ups, the last one first, and returns what failed. */
  async run(): Promise<string[]> {
    this.#ended = true
    const problems: string[] = []
    for (let cleanUp = this.#cleanUps.pop(); cleanUp; cleanUp = this.#cleanUps.pop()) {
      try {
        await cleanUp()
      } catch (error) {
        problems.push(`clean-up failed: ${messageOf(error)}`)
      }
    }
    return problems
  }
}
