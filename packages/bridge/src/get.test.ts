import type { Socket } from "node:net"
import type { ErrorCode } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { getFromSandbox } from "./get.ts"
import { answering, reply } from "./testing/answering.ts"
import { TOKEN } from "./testing/watch.ts"

const Document = z.strictObject({ fine: z.boolean() })
const never = new AbortController().signal

/** Plays a sandbox that answers in this way, and returns the call that asks it. */
const asked = async (answer: (socket: Socket) => void) => {
  const { path, requests, sockets } = await answering(answer)
  const get = (options: { deadlineMs?: number; signal?: AbortSignal } = {}) =>
    getFromSandbox(
      {
        address: { path },
        token: TOKEN,
        path: "/health",
        schema: Document,
        ...(options.deadlineMs && { deadlineMs: options.deadlineMs }),
      },
      options.signal ?? never,
    )
  return { get, requests, sockets }
}

const flood = (socket: Socket, bytes: string | Buffer) => {
  const write = () => {
    while (!socket.destroyed && socket.write(bytes));
  }
  socket.on("drain", write)
  write()
}

const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

describe("a document of a sandbox", () => {
  it("is asked for with the token, and parsed", async () => {
    const { get, requests } = await asked((socket) => socket.end(reply('{"fine":true}')))
    expect(await get()).toEqual({ fine: true })
    expect(requests[0]).toMatch(/^GET \/health HTTP/)
    expect(requests[0]).toContain(`authorization: Bearer ${TOKEN}\r\n`)
  })

  it.each<[string, ErrorCode, (socket: Socket) => void]>([
    ["of the wrong form", "bridge.protocol_violated", (socket) => socket.end(reply('{"fine":1}'))],
    ["that is not JSON", "bridge.protocol_violated", (socket) => socket.end(reply("fine"))],
    [
      "after interim answers without end",
      "bridge.limit_exceeded",
      (socket) => flood(socket, "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"),
    ],
    ["nested too deep", "bridge.limit_exceeded", (socket) => socket.end(reply("[".repeat(100)))],
    [
      "in an encoding",
      "bridge.protocol_violated",
      (socket) => socket.end(reply('{"fine":true}', "content-encoding: gzip\r\n")),
    ],
    [
      "that redirects",
      "bridge.protocol_violated",
      (socket) => socket.end(reply("", "location: http://127.0.0.1:9/\r\n", "302 Found")),
    ],
    [
      "that is refused to the token",
      "bridge.unauthorized",
      (socket) => socket.end(reply("", "", "401 No")),
    ],
    [
      "that is another protocol",
      "bridge.protocol_violated",
      (socket) => socket.write("HTTP/1.1 101 x\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
    ],
    ["that is garbage", "bridge.protocol_violated", (socket) => socket.end("\u0000\u0001garbage")],
    [
      "that breaks off",
      "bridge.dropped",
      (socket) => socket.end(reply('{"fine":true}').slice(0, -5)),
    ],
    ["that never begins", "bridge.timed_out", () => {}],
    [
      "that stops",
      "bridge.timed_out",
      (socket) => socket.write(reply('{"fine":true}').slice(0, -5)),
    ],
    [
      "with headers without end",
      "bridge.limit_exceeded",
      (socket) => {
        socket.write("HTTP/1.1 200 OK\r\n")
        flood(socket, `x: ${"x".repeat(1000)}\r\n`)
      },
    ],
    [
      "without end",
      "bridge.limit_exceeded",
      (socket) => {
        socket.write(CHUNKED)
        flood(socket, `10000\r\n${"x".repeat(65_536)}\r\n`)
      },
    ],
    [
      "without end, in the smallest pieces",
      "bridge.limit_exceeded",
      (socket) => {
        socket.write(CHUNKED)
        flood(socket, "1\r\nx\r\n".repeat(10_000))
      },
    ],
  ])(
    "%s is a typed error within 2 s of its deadline, and leaves no connection",
    async (_what, code, answer) => {
      const { get, sockets } = await asked(answer)
      const startedMs = performance.now()
      await expect(get({ deadlineMs: 1_000 })).rejects.toMatchObject({ code })
      expect(performance.now() - startedMs).toBeLessThan(3_000)
      const [socket] = sockets
      if (socket !== undefined && !socket.destroyed) {
        const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()))
        socket.resume()
        await closed
      }
    },
  )

  it("is given up when its caller gives up", async () => {
    const stop = new AbortController()
    const { get } = await asked(() => stop.abort(new Error("enough")))
    await expect(get({ signal: stop.signal })).rejects.toThrow("enough")
    await expect(get({ signal: stop.signal })).rejects.toThrow("enough")
  })
})
