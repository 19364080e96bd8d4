import { once } from "node:events"
import { connect, type Socket } from "node:net"

const MASK_BIT = 0x80
const FINAL_BIT = 0x80
export const BINARY = 2
export const PING = 9

/** The head of a request that opens a terminal. */
export const upgradeOf = (port: number, path = "/terminal", more = ""): string =>
  `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nconnection: upgrade\r\nupgrade: websocket\r\n` +
  `sec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString("base64")}\r\n${more}\r\n`

/** A client's frame, masked with zeros. */
export const frame = (opcode: number, payload: Buffer | string): Buffer => {
  const bytes = Buffer.from(payload)
  const head =
    bytes.length < 126
      ? Buffer.of(FINAL_BIT | opcode, MASK_BIT | bytes.length)
      : Buffer.of(FINAL_BIT | opcode, MASK_BIT | 126, bytes.length >> 8, bytes.length & 0xff)
  return Buffer.concat([head, Buffer.alloc(4), bytes])
}

/** Opens a connection that keeps its half open whatever the other end does. */
export const rawConnection = async (port: number): Promise<Socket> => {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
  socket.on("error", () => {})
  await once(socket, "connect")
  return socket
}

/** Opens a viewer that has a terminal and reads nothing more. */
export const rawViewer = async (port: number): Promise<Socket> => {
  const socket = await rawConnection(port)
  socket.write(upgradeOf(port))
  await once(socket, "readable")
  return socket
}

/** Writes, and waits until the other end has taken it. */
export const pour = (socket: Socket, bytes: Buffer | string): Promise<void> =>
  new Promise((resolve) => socket.write(bytes, () => resolve()))

/** Reads until the other end has ended its half. */
export const readToEnd = async (socket: Socket): Promise<string> => {
  const chunks: Buffer[] = []
  socket.on("data", (chunk: Buffer) => chunks.push(chunk))
  await Promise.race([once(socket, "end"), once(socket, "close")])
  return Buffer.concat(chunks).toString("latin1")
}
