import { SCROLLBACK_BYTES, TERMINAL_CLOSE } from "@berth/protocol/terminal-limits"
import type { TerminalExit, TerminalServerMessage } from "@berth/protocol/terminals"
import type { WebSocket } from "ws"
import type { Clock } from "../processes/clock.ts"
import type { ByteRing } from "../processes/output/ring.ts"

/** A viewer that reads nothing for this long, though data waits, is taken for gone. */
export const STALLED_MS = 30_000
const MAX_FRAME_BYTES = 64 * 1024
/**
 * Limit of the bytes on their way to a viewer: the whole scrollback, so that one who attaches to a busy terminal keeps
 * up.
 */
const WINDOW_BYTES = SCROLLBACK_BYTES

export interface ViewerParts {
  readonly clock: Clock
  readonly scrollback: ByteRing
  /** Called when the viewer has taken data, and when it is gone. */
  readonly onProgress: () => void
}

/** A viewer of a terminal, which gets the output from the scrollback, at a pace of its own. */
export class Viewer {
  readonly #socket: WebSocket
  readonly #parts: ViewerParts
  #offset: number
  #exit: TerminalExit | undefined
  #isOver = false
  #stopWatch: (() => void) | undefined

  constructor(socket: WebSocket, offset: number, parts: ViewerParts) {
    this.#socket = socket
    this.#offset = offset
    this.#parts = parts
    socket.once("close", () => this.#end())
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** The output that was not sent to this viewer yet. */
  get behindBytes(): number {
    return this.#parts.scrollback.writtenBytes - this.#offset
  }

  say(message: TerminalServerMessage): void {
    if (!this.#isOver) this.#socket.send(JSON.stringify(message))
  }

  /** Sends output, as far as the viewer takes it. Closes the viewer if output that it has not got was overwritten. */
  show(): void {
    const { scrollback } = this.#parts
    if (this.#offset < scrollback.firstOffset)
      this.close(TERMINAL_CLOSE.tooSlow, "it reads more slowly than others")
    while (!this.#isOver && this.behindBytes > 0 && this.#socket.bufferedAmount < WINDOW_BYTES) {
      const chunk = scrollback.read(this.#offset, MAX_FRAME_BYTES)
      this.#offset += chunk.length
      this.#socket.send(chunk, { binary: true }, this.#taken)
    }
    if (this.#exit !== undefined && this.behindBytes === 0) this.#finish(this.#exit)
    else this.#watch()
  }

  /** Closes the viewer once it has got everything. */
  exit(exit: TerminalExit): void {
    this.#exit = exit
    this.show()
  }

  close(code: number, reason: string): void {
    if (this.#isOver) return
    this.#end()
    this.#socket.close(code, reason)
  }

  #finish(exit: TerminalExit): void {
    this.say({ type: "exit", ...exit })
    this.close(1000, "the program has ended")
  }

  readonly #taken = (error?: Error | null): void => {
    if (error || this.#isOver) return
    this.#stopWatch?.()
    this.#stopWatch = undefined
    this.show()
    this.#parts.onProgress()
  }

  #watch(): void {
    if (this.#isOver || this.behindBytes === 0) return
    const tooLong = () => this.close(TERMINAL_CLOSE.tooSlow, "it has read nothing for too long")
    this.#stopWatch ??= this.#parts.clock.after(STALLED_MS, tooLong)
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#stopWatch?.()
    this.#parts.onProgress()
  }
}
