import type { Readable } from "node:stream"
import { setImmediate as turn } from "node:timers/promises"

/** The most that a pipe or socket holds (fs.pipe-max-size), and so the most that is unread when its writer ends. */
const MAX_UNREAD_BYTES = 1024 * 1024

/**
 * A listener for output. If it returns a promise, the process is held up until that settles; other values are ignored.
 */
export type Listen = (chunk: Buffer) => unknown

/** The output of a process. It is always read, so that the process never waits for us unless a listener wants that. */
export class Output {
  readonly #streams: readonly Readable[]
  readonly #listeners = new Set<Listen>()
  /** Resolves when no process has the other end open any more, or after `close`. */
  readonly ended: Promise<void>
  #readBytes = 0
  #held: Promise<void> | undefined

  constructor(streams: readonly Readable[]) {
    this.#streams = streams
    for (const stream of streams) {
      stream.on("data", this.#hear)
      // An error such as EIO: all readable data was read, and the end follows.
      stream.on("error", () => {})
    }
    this.ended = Promise.all(
      streams.map((stream) => new Promise((resolve) => stream.once("close", resolve))),
    ).then(() => {})
  }

  /** Calls with every chunk from now on. The returned function ends that. */
  listen(listen: Listen): () => void {
    this.#listeners.add(listen)
    return () => this.#listeners.delete(listen)
  }

  /**
   * Resolves when everything that was written before now has been read: after a whole turn of the event loop, in which
   * every readable stream is read, brought nothing. The end of a stream cannot be waited for, as a descendant may hold
   * it open after the process has ended.
   */
  async settled(): Promise<void> {
    const untilBytes = this.#readBytes + this.#streams.length * MAX_UNREAD_BYTES
    while (this.#readBytes < untilBytes && this.#streams.some((stream) => !stream.closed)) {
      await this.#held
      const before = this.#readBytes
      await turn()
      await turn()
      if (this.#readBytes === before) return
    }
  }

  /** Continues to read for remaining writers, without keeping the supervisor alive. */
  letGo(): void {
    for (const stream of this.#streams) (stream as { unref?: () => void }).unref?.()
  }

  close(): void {
    this.#listeners.clear()
    for (const stream of this.#streams) stream.destroy()
  }

  readonly #hear = (chunk: Buffer): void => {
    this.#readBytes += chunk.length
    const waits = [...this.#listeners]
      .map((listen) => listen(chunk))
      .filter((wait) => wait instanceof Promise)
    if (waits.length > 0) this.#holdUp(waits)
  }

  /** Pauses the streams until the promises settle. The pipe then fills up, and its writers wait. */
  #holdUp(waits: readonly unknown[]): void {
    for (const stream of this.#streams) stream.pause()
    const held = Promise.allSettled([this.#held, ...waits]).then(() => {
      if (this.#held !== held) return
      this.#held = undefined
      for (const stream of this.#streams) stream.resume()
    })
    this.#held = held
  }
}
