import { randomBytes } from "node:crypto"

export interface HeartbeatOptions {
  readonly everyMs: number
  readonly deadlineMs: number
  readonly ping: (payload: Buffer) => void
  readonly onDead: () => void
}

/** The payload cannot be guessed: a peer that returns it has read everything that was sent before it. */
const PAYLOAD_BYTES = 8

/** Asks again and again whether the peer lives. */
export class Heartbeat {
  readonly #options: HeartbeatOptions
  readonly #interval: NodeJS.Timeout
  #sent: Buffer | undefined
  #deadline: NodeJS.Timeout | undefined
  #isPaused = false

  constructor(options: HeartbeatOptions) {
    this.#options = options
    this.#interval = setInterval(() => this.#beat(), options.everyMs)
  }

  /** Returns whether the payload is the expected answer. */
  answer(payload: Buffer): boolean {
    if (this.#sent === undefined || !payload.equals(this.#sent)) return false
    this.#sent = undefined
    clearTimeout(this.#deadline)
    return true
  }

  /** Pauses the deadline: while nothing is read, no answer can be seen. */
  pause(): void {
    this.#isPaused = true
    clearTimeout(this.#deadline)
  }

  resume(): void {
    this.#isPaused = false
    if (this.#sent !== undefined) this.#wait()
  }

  stop(): void {
    clearInterval(this.#interval)
    clearTimeout(this.#deadline)
    this.#isPaused = true
  }

  #beat(): void {
    if (this.#sent !== undefined || this.#isPaused) return
    this.#sent = randomBytes(PAYLOAD_BYTES)
    this.#options.ping(this.#sent)
    this.#wait()
  }

  #wait(): void {
    const awaited = this.#sent
    const judge = () => {
      if (this.#sent === awaited && !this.#isPaused) this.#options.onDead()
    }
    clearTimeout(this.#deadline)
    this.#deadline = setTimeout(() => {
      // A server that was held up itself may have the answer unread: it reads once more before it judges.
      setImmediate(() => setImmediate(judge))
    }, this.#options.deadlineMs)
  }
}
