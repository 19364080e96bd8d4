import { COMMAND_CHANNEL, COMMAND_CLOSE } from "@berth/protocol/command-limits"
import type { CommandServerMessage, CommandStream } from "@berth/protocol/commands"
import { toWireError } from "@berth/protocol/errors"
import type { WebSocket } from "ws"

/** Limit of the bytes that wait to be sent to a client: some round trips' worth. */
const MAX_WAITING_BYTES = 512 * 1024
const NORMAL = 1000

/** Buffer size of a frame: one read of a pipe, behind the channel byte. */
const FRAME_BYTES = 1 + 64 * 1024
/** Smaller frames are not pooled, as their garbage does not matter. */
const SMALL_FRAME_BYTES = 4 * 1024

/** Sends messages and output to a client. */
export class Frames {
  readonly #websocket: WebSocket
  /** Buffers of sent frames, to be reused: a flood would leave them to the garbage collector. */
  readonly #spare: Buffer[] = []
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

  /**
   * Sends output. Returns undefined if there is room for more, else a promise that resolves when there is, or when the
   * client has gone.
   */
  output(stream: CommandStream, chunk: Buffer): Promise<void> | undefined {
    if (!this.isOpen) return undefined
    const memory = this.#take(chunk.length + 1)
    memory[0] = COMMAND_CHANNEL[stream]
    chunk.copy(memory, 1)
    this.#websocket.send(memory.subarray(0, chunk.length + 1), () => this.#onSent(memory))
    if (this.#websocket.bufferedAmount <= MAX_WAITING_BYTES) return undefined
    this.#room ??= Promise.withResolvers<void>()
    return this.#room.promise
  }

  /**
   * Sends the last message, and closes the connection once it is sent: a close that waits for long would cut it off.
   */
  end(message: CommandServerMessage, code: number = NORMAL): void {
    if (!this.isOpen) return
    this.#websocket.send(JSON.stringify(message), () => this.#websocket.close(code))
    // The client's own close frame comes after data that nobody reads any more.
    this.#websocket.resume()
  }

  fail(thrown: unknown): void {
    this.end({ type: "error", error: toWireError(thrown) }, COMMAND_CLOSE.failed)
  }

  #take(bytes: number): Buffer {
    if (bytes <= SMALL_FRAME_BYTES || bytes > FRAME_BYTES) return Buffer.allocUnsafe(bytes)
    return this.#spare.pop() ?? Buffer.allocUnsafeSlow(FRAME_BYTES)
  }

  #onSent(memory: Buffer): void {
    if (memory.length === FRAME_BYTES) this.#spare.push(memory)
    if (this.#websocket.bufferedAmount <= MAX_WAITING_BYTES / 2) this.#makeRoom()
  }

  #makeRoom(): void {
    this.#room?.resolve()
    this.#room = undefined
  }
}
