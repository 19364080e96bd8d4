import type { Clock } from "../processes/clock.ts"
import { ByteRing } from "../processes/output/ring.ts"

/** Short enough to read along, long enough that a chatty program makes ten messages a second, not thousands. */
export const LIVE_OUTPUT_INTERVAL_MS = 100
/** A terminal page or two; what comes faster than this each interval is counted and left out. */
export const LIVE_OUTPUT_BYTES = 8 * 1024

export type ShowOutput = (text: string, leftOutBytes: number) => void

/**
 * Passes output on as it comes: the first piece at once, then at most one piece each interval, so that a
 * program that writes a gigabyte costs those who watch no more than one that writes a line.
 */
export class LiveOutput {
  readonly #clock: Clock
  readonly #show: ShowOutput
  readonly #held = new ByteRing(LIVE_OUTPUT_BYTES)
  #unshownBytes = 0
  #takeBack: (() => void) | undefined

  constructor(clock: Clock, show: ShowOutput) {
    this.#clock = clock
    this.#show = show
  }

  write(chunk: Buffer): void {
    this.#held.write(chunk)
    this.#unshownBytes += chunk.length
    if (this.#takeBack !== undefined) return
    this.#flush()
    this.#takeBack = this.#clock.after(LIVE_OUTPUT_INTERVAL_MS, this.#next)
  }

  /** Shows the rest, and nothing afterwards. */
  close(): void {
    this.#takeBack?.()
    this.#takeBack = undefined
    this.#flush()
  }

  readonly #next = (): void => {
    this.#takeBack = undefined
    if (this.#unshownBytes === this.#unfinishedBytes) return
    this.#flush()
    this.#takeBack = this.#clock.after(LIVE_OUTPUT_INTERVAL_MS, this.#next)
  }

  /** The start of a character whose rest has not come yet. */
  #unfinishedBytes = 0

  #flush(): void {
    const leftOutBytes = this.#unshownBytes - this.#held.length
    const text = this.#held.take()
    this.#unfinishedBytes = this.#unshownBytes = this.#held.length
    if (text !== "" || leftOutBytes > 0) this.#show(text, leftOutBytes)
  }
}
