import type { Readable } from "node:stream"
import { setImmediate as turn } from "node:timers/promises"

/** The most that a pipe or socket holds (fs.pipe-max-size): all that can be unread when its writer ends. */
const MAX_UNREAD_BYTES = 1024 * 1024

/** Whoever returns a promise holds up the process until it is settled; anything else that is returned means nothing. */
export type Listen = (chunk: Buffer) => unknown

/** What a process writes. It is always read, so that no process waits for us unless a listener wants it to. */
export class Output {
  readonly #streams: readonly Readable[]
  readonly #listeners = new Set<Listen>()
  /** Resolves when nobody holds the other end any more, or after `close`. */
  readonly ended: Promise<void>
  #readBytes = 0
  #held: Promise<void> | undefined

  constructor(streams: readonly Readable[]) {
    this.#streams = streams
    for (const stream of streams) {
      stream.on("data", this.#hear)
      // Such as EIO; what could be read was, and the end follows.
      stream.on("error", () => {})
    }
    this.ended = Promise.all(
      streams.map((stream) => new Promise((resolve) => stream.once("close", resolve))),
    ).then(() => {})
  }

  /** Calls with every piece from now on; the returned function ends that. */
  listen(listen: Listen): () => void {
    this.#listeners.add(listen)
    return () => this.#listeners.delete(listen)
  }

  /**
   * Resolves when everything is read that was written before now: after a whole turn of the event loop, in
   * which every stream that has something is read, that brought nothing. A stream does not end with its
   * process when a descendant holds it.
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

  /** Goes on reading for those who still write, without keeping the supervisor alive for it. */
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

  /** A stream that is not read fills the pipe behind it, and whoever writes to that waits. */
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
