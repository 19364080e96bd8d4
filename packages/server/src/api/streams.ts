import type { ServerResponse } from "node:http"
import { BerthError } from "@berth/protocol/errors"

export interface StreamLimits {
  /** The most streams open at the same time. */
  readonly streams: number
  /** The most bytes that all streams together have written and their readers have not taken. */
  readonly unreadBytes: number
}

export const STREAM_LIMITS: StreamLimits = {
  // People and programs on one machine have a handful each.
  streams: 512,
  // Some 100 readers that do not read, with a page each.
  unreadBytes: 32 * 1024 * 1024,
}

interface Stream {
  readonly response: ServerResponse
  /** Since when the reader has not taken what was written. */
  stalledAtMs: number | undefined
}

/** The open event streams: bounded in number, and in the bytes that they hold for readers who do not read. */
export class Streams {
  readonly #limits: StreamLimits
  readonly #open = new Set<Stream>()

  constructor(limits: StreamLimits = STREAM_LIMITS) {
    this.#limits = limits
  }

  /** Throws when there are as many as allowed. */
  check(): void {
    if (this.#open.size < this.#limits.streams) return
    throw new BerthError("events.too_many", "too many event streams are open", {
      details: { max: this.#limits.streams },
    })
  }

  /** Counts a stream until it is closed. */
  add(response: ServerResponse): void {
    const stream: Stream = { response, stalledAtMs: undefined }
    this.#open.add(stream)
    response.once("close", () => this.#open.delete(stream))
    response.on("drain", () => {
      stream.stalledAtMs = undefined
    })
  }

  /**
   * Called after a write that waits for its reader: ends the streams that have stalled longest while too much is
   * unread.
   */
  stalled(response: ServerResponse): void {
    let unread = 0
    for (const stream of this.#open) {
      if (stream.response === response) stream.stalledAtMs ??= performance.now()
      unread += stream.response.writableLength
    }
    while (unread > this.#limits.unreadBytes) {
      const longest = [...this.#open]
        .filter(({ stalledAtMs }) => stalledAtMs !== undefined)
        .sort((one, other) => (one.stalledAtMs ?? 0) - (other.stalledAtMs ?? 0))[0]
      if (longest === undefined) return
      unread -= longest.response.writableLength
      this.#open.delete(longest)
      longest.response.destroy()
    }
  }
}
