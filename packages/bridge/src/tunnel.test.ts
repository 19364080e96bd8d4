import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { openTunnel } from "./tunnel.ts"

const never = new AbortController().signal
const UPGRADED = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: bytes\r\n\r\n"

/** Plays a sandbox's socket that answers the first bytes of each connection in this way. */
const play = async (answer: (socket: Socket, said: string) => void) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-tunnel-"))
  const path = join(directory, "socket")
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket.on("error", () => {}))
    socket.once("data", (said) => answer(socket, String(said)))
  })
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
    rmSync(directory, { recursive: true, force: true })
  })
  server.listen(path)
  await once(server, "listening")
  const open = (deadlineMs = 5_000) =>
    openTunnel({ address: { path }, token: "secret", path: "/host-ports/x", deadlineMs }, never)
  return { open, sockets }
}

describe("a connection for plain bytes", () => {
  it("sends the token and the path, loses no early bytes, and ends each way by itself", async () => {
    let head = ""
    const { open } = await play((socket, said) => {
      head = said
      socket.write(`${UPGRADED}early `)
      void buffer(socket).then(({ length }) => socket.end(`and ${length}`))
    })
    const tunnel = await open()
    expect(head).toMatch(/^GET \/host-ports\/x HTTP\/1.1\r\n/)
    expect(head).toContain("authorization: Bearer secret\r\n")
    tunnel.end(Buffer.alloc(100_000))
    expect(String(await buffer(tunnel))).toBe("early and 100000")
  })

  it.each([
    [
      "refuses it",
      "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
      "bridge.protocol_violated",
    ],
    ["refuses the token", "HTTP/1.1 401 Unauthorized\r\n\r\n", "bridge.unauthorized"],
    ["talks nonsense", "hello\r\n\r\n", "bridge.protocol_violated"],
    [
      "sends a header of 64 KiB",
      `HTTP/1.1 101 X\r\na: ${"x".repeat(64 * 1024)}\r\n\r\n`,
      "bridge.limit_exceeded",
    ],
    ["is silent", "", "bridge.timed_out"],
  ])("fails where the sandbox %s, and leaves no connection", async (_what, answer, code) => {
    const { open, sockets } = await play((socket) => {
      socket.write(answer)
      socket.on("end", () => socket.end()).resume()
    })
    await expect(open(code === "bridge.timed_out" ? 50 : 5_000)).rejects.toMatchObject({ code })
    const [socket] = sockets
    await vi.waitFor(() => expect(socket?.destroyed).toBe(true))
  })
})
