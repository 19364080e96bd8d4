import { messageOf } from "./message.ts"

/** What a benchmark must undo when it ends. */
export class Ends {
  #cleanUps: (() => unknown)[] = []
  #ended = false

  /** A preparation that was given up may still make things: what comes late is undone at once. */
  readonly add = (cleanUp: () => unknown): void => {
    this.#cleanUps.push(cleanUp)
    if (this.#ended) void this.run()
  }

  /** Undoes everything, the last thing first, and says what failed. */
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
