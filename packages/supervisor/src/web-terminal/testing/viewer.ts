import { once } from "node:events"
import { WebSocket } from "ws"

/** A viewer of a terminal, which collects the output and waits for it. */
export class Viewer {
  readonly socket: WebSocket
  readonly #chunks: Buffer[] = []
  #changed = Promise.withResolvers<void>()

  private constructor(socket: WebSocket) {
    this.socket = socket
    socket.on("message", (data: Buffer) => {
      this.#chunks.push(data)
      this.#changed.resolve()
      this.#changed = Promise.withResolvers()
    })
  }

  static async open(port: number, options: { origin?: string; host?: string } = {}) {
    const { host = `127.0.0.1:${port}`, ...rest } = options
    const socket = new WebSocket(`ws://127.0.0.1:${port}/terminal`, { headers: { host }, ...rest })
    const viewer = new Viewer(socket)
    await once(socket, "open")
    return viewer
  }

  get shown(): string {
    return Buffer.concat(this.#chunks).toString("utf8")
  }

  type(text: string): void {
    this.socket.send(Buffer.from(text))
  }

  /** Waits until the pattern is on the screen. */
  async see(pattern: RegExp): Promise<RegExpMatchArray> {
    for (;;) {
      const match = this.shown.match(pattern)
      if (match !== null) return match
      await this.#changed.promise
    }
  }

  async close(): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return
    const closed = once(this.socket, "close")
    this.socket.close()
    await closed
  }
}
