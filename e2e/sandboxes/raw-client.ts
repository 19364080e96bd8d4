import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { connect, type Socket } from "node:net"

/** The address of a server, and its token. */
export interface Access {
  readonly url: string
  readonly token: string
}

/** A connection to a server on which the test sends every byte, so that it can be cut at any of them. */
export class RawClient {
  readonly socket: Socket
  /** The local port, which tells this connection from all others of the machine. */
  readonly port: number
  readonly #access: Access
  #received = 0

  private constructor(socket: Socket, access: Access) {
    this.socket = socket
    this.port = socket.localPort ?? 0
    this.#access = access
    socket.on("error", () => {})
  }

  static async open(access: Access): Promise<RawClient> {
    const { hostname, port } = new URL(access.url)
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    await once(socket, "connect")
    return new RawClient(socket, access)
  }

  /** Sends bytes, and resolves when the kernel has all of them. */
  send(data: string | Buffer): Promise<void> {
    return new Promise((resolve) => this.socket.write(data, () => resolve()))
  }

  /** Sends the beginning of a request, up to the body. */
  request(method: string, path: string, headers: readonly string[] = []): Promise<void> {
    const { url, token } = this.#access
    const all = [`Host: ${new URL(url).host}`, `Authorization: Bearer ${token}`, ...headers]
    return this.send([`${method} ${path} HTTP/1.1`, ...all, "", ""].join("\r\n"))
  }

  upgrade(path: string): Promise<void> {
    return this.request("GET", path, [
      ...["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"],
      `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`,
    ])
  }

  /** Sends a text frame, masked with zeros. */
  say(message: object): Promise<void> {
    const payload = Buffer.from(JSON.stringify(message))
    const head = [0x81, 0x80 | 126, payload.length >> 8, payload.length & 0xff, 0, 0, 0, 0]
    return this.send(Buffer.concat([Buffer.from(head), payload]))
  }

  /** Reads that many bytes, counted from the beginning, and then no more. */
  async receive(bytes: number): Promise<void> {
    if (this.#received >= bytes) return
    await new Promise<void>((resolve, reject) => {
      const onData = (chunk: Buffer) => {
        this.#received += chunk.length
        if (this.#received < bytes) return
        this.socket.pause().off("data", onData).off("close", onClose)
        resolve()
      }
      const onClose = () => reject(new Error(`closed after ${this.#received} bytes`))
      this.socket.on("data", onData).once("close", onClose).resume()
    })
  }

  cut(): void {
    this.socket.destroy()
  }
}
