import { COMMAND_CHANNEL } from "@berth/protocol/command-limits"
import type { CommandServerMessage, CommandStream } from "@berth/protocol/commands"
import { toWireError } from "@berth/protocol/errors"
import type { WebSocket } from "ws"

/** What waits to be sent to one client: some round trips' worth. */
const MAX_WAITING_BYTES = 512 * 1024
const NORMAL = 1000

/** Our side of a connection to a client. */
export class Frames {
  readonly #websocket: WebSocket
  #room: PromiseWithResolvers<void> | undefined

  constructor(websocket: WebSocket) {
    this.#websocket = websocket
    websocket.once("close", () => this.#makeRoom())
  }

  get isOpen(): boolean {
    return this.#websocket.readyState === this.#websocket.OPEN
  }

  say(message: CommandServerMessage): void {
    if (this.isOpen) this.#websocket.send(JSON.stringify(message))
  }

  /** Resolves when there is room for more, or nobody to send it to; undefined: there is. */
  output(stream: CommandStream, chunk: Buffer): Promise<void> | undefined {
    if (!this.isOpen) return undefined
    const frame = Buffer.allocUnsafe(chunk.length + 1)
    frame[0] = COMMAND_CHANNEL[stream]
    chunk.copy(frame, 1)
    this.#websocket.send(frame, this.#onSent)
    if (this.#websocket.bufferedAmount <= MAX_WAITING_BYTES) return undefined
    this.#room ??= Promise.withResolvers<void>()
    return this.#room.promise
  }

  /** Says the last word, and closes when it is sent: a close that waits longer than a while cuts off. */
  end(message: CommandServerMessage): void {
    if (!this.isOpen) return
    this.#websocket.send(JSON.stringify(message), () => this.#websocket.close(NORMAL))
    // The client's own close comes behind what nobody reads any more.
    this.#websocket.resume()
  }

  fail(thrown: unknown): void {
    this.end({ type: "error", error: toWireError(thrown) })
  }

  readonly #onSent = (): void => {
    if (this.#websocket.bufferedAmount <= MAX_WAITING_BYTES / 2) this.#makeRoom()
  }

  #makeRoom(): void {
    this.#room?.resolve()
    this.#room = undefined
  }
}
