import type { Clock } from "../processes/clock.ts"
import { ByteRing } from "../processes/output/ring.ts"

/**
 * Interval of live output: short enough to read along, long enough that a chatty program makes ten messages a second,
 * not thousands.
 */
export const LIVE_OUTPUT_INTERVAL_MS = 100
/** Limit of the output for each interval, a terminal page or two. Bytes beyond it are counted and left out. */
export const LIVE_OUTPUT_BYTES = 8 * 1024

export type ShowOutput = (text: string, leftOutBytes: number) => void

/**
 * Passes on output as it comes: the first piece at once, then at most one piece each interval. So a program that writes
 * a gigabyte costs watchers no more than one that writes a line.
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

  /** The number of held bytes that begin an incomplete character. */
  #unfinishedBytes = 0

  #flush(): void {
    const leftOutBytes = this.#unshownBytes - this.#held.length
    const text = this.#held.take()
    this.#unfinishedBytes = this.#unshownBytes = this.#held.length
    if (text !== "" || leftOutBytes > 0) this.#show(text, leftOutBytes)
  }
}
