import { SCROLLBACK_BYTES, TERMINAL_CLOSE } from "@berth/protocol/terminal-limits"
import type { TerminalExit, TerminalServerMessage } from "@berth/protocol/terminals"
import type { WebSocket } from "ws"
import type { Clock } from "../processes/clock.ts"
import type { ByteRing } from "../processes/output/ring.ts"

/** One that takes nothing for so long, though something waits, is not there any more. */
export const STALLED_MS = 30_000
const MAX_FRAME_BYTES = 64 * 1024
/** On its way to a viewer: the whole scrollback, so that one who attaches to a busy terminal keeps up. */
const WINDOW_BYTES = SCROLLBACK_BYTES

export interface ViewerParts {
  readonly clock: Clock
  readonly scrollback: ByteRing
  /** Called when it has taken something, and when it is gone. */
  readonly onProgress: () => void
}

/** Someone who looks at a terminal: takes its output from the scrollback, at a pace of its own. */
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

  /** Of the output, what it was not sent yet. */
  get behindBytes(): number {
    return this.#parts.scrollback.writtenBytes - this.#offset
  }

  say(message: TerminalServerMessage): void {
    if (!this.#isOver) this.#socket.send(JSON.stringify(message))
  }

  /** Sends what there is, as far as it takes it. What it was to get and is overwritten ends it. */
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

  /** Ends it when it has got everything. */
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
