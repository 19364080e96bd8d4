import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { engineVersion } from "./version.ts"

const never = new AbortController().signal

let directory: string
let server: Server | undefined
const open = new Set<Socket>()
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-engine-"))
})
afterEach(async () => {
  for (const socket of open) socket.destroy()
  server?.close()
  server = undefined
  await rm(directory, { recursive: true, force: true })
})

/** A socket on which each connection is handed to `serve`. */
const engine = async (serve: (socket: Socket) => void) => {
  const socketPath = join(directory, "engine.sock")
  server = createServer((socket) => {
    open.add(socket)
    socket.on("error", () => {})
    serve(socket)
  }).listen(socketPath)
  await once(server, "listening")
  return { socketPath }
}

const answers = (status: string, body: string) => (socket: Socket) =>
  socket.once("data", () =>
    socket.end(`HTTP/1.1 ${status}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`),
  )

describe("engineVersion", () => {
  it("asks for the version, and drops unknown fields of the answer", async () => {
    let asked = ""
    const address = await engine((socket) => {
      socket.once("data", (data) => {
        asked = data.toString()
      })
      answers("200 OK", '{"Version":"20.10.24+dfsg1","ApiVersion":"1.41","Os":"linux"}')(socket)
    })
    expect(await engineVersion(address, never)).toEqual({
      Version: "20.10.24+dfsg1",
      ApiVersion: "1.41",
    })
    expect(asked).toMatch(/^GET \/version HTTP\/1\.1\r\n/)
  })

  it.each([
    ["accepts and never answers", () => {}],
    [
      "starts an answer and stops",
      (socket: Socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"),
    ],
  ])("gives up on a socket that %s", async (_, serve) => {
    const address = await engine(serve)
    await expect(engineVersion(address, never, 100)).rejects.toMatchObject({
      code: "deadline.exceeded",
    })
  })

  it("stops when the caller cancels, though the engine has not answered", async () => {
    const stop = new AbortController()
    const connected = Promise.withResolvers<void>()
    const address = await engine(() => connected.resolve())
    const asking = engineVersion(address, stop.signal)
    await connected.promise
    stop.abort(new Error("enough"))
    await expect(asking).rejects.toThrow("enough")
  })

  it.each([
    ["another status", answers("500 Oops", "{}"), /answered 500/],
    ["an answer that is no JSON", answers("200 OK", "<html>"), /JSON/],
    ["JSON of another kind", answers("200 OK", "[1]"), /expected object/],
    [
      "a version with control characters",
      answers("200 OK", '{"Version":"1.0\\u001b[2J","ApiVersion":"1.41"}'),
      /Version/,
    ],
    ["a flood", answers("200 OK", " ".repeat(10_000_000)), /more than 65536 bytes/],
    ["a hang-up", (socket: Socket) => socket.destroy(), /hang up|ECONNRESET|EPIPE/],
    ["an answer that is no HTTP", (socket: Socket) => socket.end("hello\r\n\r\n"), /Parse Error/],
  ])("refuses %s", async (_, serve, message) => {
    await expect(engineVersion(await engine(serve), never)).rejects.toThrow(message)
  })

  it("fails with ENOENT where nothing listens", async () => {
    const nobody = { socketPath: join(directory, "nobody.sock") }
    await expect(engineVersion(nobody, never)).rejects.toMatchObject({ code: "ENOENT" })
  })
})
