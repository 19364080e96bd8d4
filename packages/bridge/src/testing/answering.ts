import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"

/** Plays a sandbox that answers every connection in this way, once the request has come. */
export const answering = async (answer: (socket: Socket) => void) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-get-"))
  const path = join(directory, "socket")
  const requests: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on("error", () => {})
    socket.once("data", (data) => {
      requests.push(String(data))
      answer(socket)
    })
  })
  server.listen(path)
  await once(server, "listening")
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
    rmSync(directory, { recursive: true, force: true })
  })
  return { path, requests, sockets }
}

export const reply = (body: string, headers = "", status = "200 OK") =>
  `HTTP/1.1 ${status}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`
