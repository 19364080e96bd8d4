import { once } from "node:events"
import type { TerminalServerMessage } from "@berth/protocol/terminals"
import { onTestFinished } from "vitest"
import { WebSocket } from "ws"

/** A viewer of a terminal, which collects the output and the messages, and waits for them. */
export class TestViewer {
  readonly socket: WebSocket
  readonly said: TerminalServerMessage[] = []
  readonly closed: Promise<{ code: number; reason: string }>
  readonly #chunks: Buffer[] = []
  #changed = Promise.withResolvers<void>()

  private constructor(socket: WebSocket) {
    this.socket = socket
    this.closed = new Promise((resolve) =>
      socket.once("close", (code, reason) => resolve({ code, reason: String(reason) })),
    )
    socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) this.#chunks.push(data)
      else this.said.push(JSON.parse(data.toString("utf8")))
      this.#changed.resolve()
      this.#changed = Promise.withResolvers()
    })
  }

  static async open(url: string, headers: Record<string, string>): Promise<TestViewer> {
    const socket = new WebSocket(url, { headers })
    onTestFinished(() => socket.terminate())
    const viewer = new TestViewer(socket)
    await once(socket, "open")
    return viewer
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  type(text: string | Buffer): void {
    this.socket.send(Buffer.from(text))
  }

  resize(cols: number, rows: number): void {
    this.socket.send(JSON.stringify({ type: "resize", cols, rows }))
  }

  /** Waits until output matches the pattern. */
  see(pattern: RegExp): Promise<RegExpMatchArray> {
    return this.#until(() => this.bytes.toString("utf8").match(pattern) ?? undefined)
  }

  /** Waits for a message of the type. */
  hear<Type extends TerminalServerMessage["type"]>(type: Type) {
    type Message = Extract<TerminalServerMessage, { type: Type }>
    return this.#until(() => this.said.findLast((each): each is Message => each.type === type))
  }

  async #until<Found>(look: () => Found | undefined): Promise<Found> {
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      await this.#changed.promise
    }
  }
}
