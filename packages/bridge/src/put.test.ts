import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { createServer as createRawServer, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable } from "node:stream"
import { buffer } from "node:stream/consumers"
import { queryObjects } from "node:v8"
import type { ErrorCode } from "@berth/protocol/errors"
import { describe, expect, it, onTestFinished } from "vitest"
import { putToSandbox } from "./put.ts"
import { TOKEN } from "./testing/watch.ts"

const never = new AbortController().signal
const MIB = 1024 * 1024
const CHUNKS = 4_000

const place = () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-put-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return join(directory, "socket")
}

/** Plays a sandbox that treats each connection in this way, and returns its socket. */
const behaving = async (behave: (socket: Socket) => void) => {
  const path = place()
  const sockets = new Set<Socket>()
  const server = createRawServer((socket) => {
    sockets.add(socket)
    socket.on("error", () => {})
    behave(socket)
  })
  server.listen(path)
  await once(server, "listening")
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return path
}

/** A stream that counts the bytes that were taken of it. */
const counting = (bytes: number) => {
  const counted = { taken: 0 }
  function* chunks() {
    while (counted.taken < bytes) {
      counted.taken += 65_536
      yield Buffer.alloc(65_536)
    }
  }
  return Object.assign(Readable.from(chunks(), { objectMode: false }), { counted })
}

const put = (
  path: string,
  body: Readable,
  options: { idleMs?: number; signal?: AbortSignal } = {},
) =>
  putToSandbox(
    {
      address: { path },
      token: TOKEN,
      path: "/bundles/x",
      body,
      ...(options.idleMs && { idleMs: options.idleMs }),
    },
    options.signal ?? never,
  )

const answer = (status: string) => `HTTP/1.1 ${status}\r\ncontent-length: 0\r\n\r\n`

describe("a stream to a sandbox", () => {
  it("arrives whole, with the token", async () => {
    const path = place()
    const received = Promise.withResolvers<unknown>()
    const server = createServer((request, response) => {
      const { url, headers, method } = request
      void buffer(request).then(({ length: bytes }) => {
        received.resolve({ url: `${method} ${url}`, token: headers.authorization, bytes })
        response.writeHead(204).end()
      })
    }).listen(path)
    await once(server, "listening")
    onTestFinished(() => void server.close())
    await put(path, counting(5 * MIB))
    expect(await received.promise).toEqual({
      url: "PUT /bundles/x",
      token: `Bearer ${TOKEN}`,
      bytes: 5 * MIB,
    })
  })

  it.each<[string, ErrorCode, (socket: Socket) => void]>([
    ["refuses it", "bridge.refused", (socket) => socket.write(answer("404 Not Found"))],
    ["has no space", "bridge.refused", (socket) => socket.write(answer("507 Full"))],
    ["refuses the token", "bridge.unauthorized", (socket) => socket.write(answer("401 No"))],
    ["redirects it", "bridge.refused", (socket) => socket.write(answer("302 Found"))],
    [
      "accepts it before it has read it",
      "bridge.refused",
      (socket) => socket.write(answer("204 Ok")),
    ],
    ["closes", "bridge.dropped", (socket) => socket.destroy()],
    ["does not read", "bridge.timed_out", (socket) => socket.pause()],
    ["answers garbage", "bridge.protocol_violated", (socket) => socket.write("garbage\r\n\r\n")],
  ])("is ended when the sandbox %s", async (_, code, behave) => {
    const path = await behaving(behave)
    const body = counting(64 * MIB)
    await expect(put(path, body, { idleMs: 500 })).rejects.toMatchObject({ code })
    expect(body.destroyed).toBe(true)
    expect(body.counted.taken).toBeLessThan(4 * MIB)
  })

  it("is ended when the sandbox has read all of it and does not answer", async () => {
    const path = await behaving((socket) => socket.resume())
    await expect(put(path, counting(MIB), { idleMs: 300 })).rejects.toMatchObject({
      code: "bridge.timed_out",
    })
  })

  it("may pause beyond its idle time while its source does, and fails with its source", async () => {
    const path = await behaving((socket) => socket.resume())
    async function* slow() {
      yield Buffer.from("x")
      await new Promise((resolve) => setTimeout(resolve, 400))
      throw new Error("git failed")
    }
    const body = Readable.from(slow(), { objectMode: false })
    await expect(put(path, body, { idleMs: 100 })).rejects.toThrow("git failed")
  })

  it("keeps no promise for each chunk that was sent", async () => {
    const path = await behaving((socket) => socket.resume())
    const kept: number[] = []
    async function* chunks() {
      for (const count of [500, CHUNKS]) {
        for (let chunk = 0; chunk < count; chunk++) yield Buffer.from("x")
        kept.push(queryObjects(Promise, { format: "count" }))
      }
      throw new Error("enough")
    }
    const body = Readable.from(chunks(), { objectMode: false, highWaterMark: 1 })
    await expect(put(path, body)).rejects.toThrow("enough")
    const [before = 0, after = 0] = kept
    expect(after - before).toBeLessThan(CHUNKS / 2)
  })

  it("is ended when its caller gives up", async () => {
    const stop = new AbortController()
    const path = await behaving((socket) => {
      socket.pause()
      stop.abort(new Error("enough"))
    })
    const body = counting(64 * MIB)
    await expect(put(path, body, { signal: stop.signal })).rejects.toThrow("enough")
    expect(body.destroyed).toBe(true)
  })
})
