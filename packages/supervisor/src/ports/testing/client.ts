import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { createServer, type Server, type Socket } from "node:net"
import { onTestFinished } from "vitest"
import { WebSocket } from "ws"

/** Starts a program in the sandbox that accepts connections, and passes them to the test. */
export const listenOn = async (
  host: string,
  onConnection: (socket: Socket) => void,
): Promise<{ server: Server; port: number }> => {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on("error", () => {})
    onConnection(socket)
  })
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  server.listen(0, host)
  await once(server, "listening")
  return { server, port: (server.address() as AddressInfo).port }
}

/** Opens a client, and collects the bytes and messages that it gets. */
export const openClient = async (url: string, headers: Record<string, string>) => {
  const socket = new WebSocket(url, { headers })
  const chunks: Buffer[] = []
  const said: Record<string, unknown>[] = []
  socket.on("message", (data: Buffer, isBinary) => {
    if (isBinary) chunks.push(data)
    else said.push(JSON.parse(data.toString("utf8")))
  })
  const closed = new Promise<number>((resolve) => socket.once("close", resolve))
  onTestFinished(() => socket.terminate())
  await once(socket, "open")
  return { socket, said, closed, text: () => Buffer.concat(chunks).toString("utf8") }
}

/** Waits until a number that changes only while data moves has not changed for many looks in a row. */
export const standsStill = async (look: () => number): Promise<number> => {
  let before = look()
  for (let looks = 0; looks < 50; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 5))
    const now = look()
    if (now !== before) looks = 0
    before = now
  }
  return before
}
