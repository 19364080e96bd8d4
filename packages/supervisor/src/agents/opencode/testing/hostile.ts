import { once } from "node:events"
import { createServer, type Socket } from "node:net"

/** The bytes to send instead of a proper answer. */
export interface Hostile {
  readonly head?: string
  readonly body?: string
  /** Whether the answer is repeated without end. */
  readonly isEndless?: boolean
  /** Whether the head never ends. */
  readonly isEndlessHead?: boolean
  readonly isSilent?: boolean
}

/** Starts a server that answers each request with the same attack. */
export const startHostile = async (hostile: Hostile) => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on("error", () => {})
    socket.once("data", () => attack(socket, hostile))
  })
  await once(server.listen(0, "127.0.0.1"), "listening")
  const { port } = server.address() as { port: number }
  const close = async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, "close")
  }
  return { port, close }
}

const attack = (socket: Socket, hostile: Hostile): void => {
  const { head = "", body = "", isEndless, isEndlessHead, isSilent } = hostile
  if (isSilent) return
  const whole = `HTTP/1.1 ${head}\r\n\r\n${body}`
  if (isEndlessHead) repeat(socket, `HTTP/1.1 ${head}`, "x".repeat(64 * 1024))
  else if (isEndless) repeat(socket, whole, body === "" ? whole.repeat(1_000) : body)
  else socket.end(whole)
}

const repeat = (socket: Socket, first: string, next: string): void => {
  socket.write(first)
  const more = () => {
    while (!socket.destroyed && socket.write(next));
  }
  socket.on("drain", more)
  more()
}
