import { once } from "node:events"
import { createServer, get, type IncomingMessage, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { setImmediate } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished } from "vitest"
import { createClient } from "./client.ts"
import { nodeFetch } from "./node-fetch.ts"

const MIB = 1024 * 1024
const ENTRY = {
  path: "large",
  kind: "file",
  size: 3 * MIB,
  mode: 0o644,
  uid: 1000,
  gid: 1000,
  modifiedAtMs: 0,
  etag: "x",
}

const serve = async (listener: RequestListener) => {
  const server = createServer(listener)
  await once(server.listen(0, "127.0.0.1"), "listening")
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = createClient({ url, token: "t", fetch: nodeFetch })
  return { url, files: client.sandboxes.at(newId.sandbox()).files }
}

/** A stream of so many MiB. `progress` says how many were asked for, and whether the stream was cancelled. */
const counted = (mib: number, type?: "bytes") => {
  const progress = { pulled: 0, isCancelled: false }
  const source = {
    pull: (controller: ReadableStreamDefaultController | ReadableByteStreamController) => {
      if (progress.pulled === mib) {
        controller.close()
        if ("byobRequest" in controller) controller.byobRequest?.respond(0)
      } else controller.enqueue(new Uint8Array(MIB).fill(++progress.pulled))
    },
    cancel: () => {
      progress.isCancelled = true
    },
  }
  const stream: ReadableStream<Uint8Array> =
    type === undefined ? new ReadableStream(source) : new ReadableStream({ ...source, type })
  return { stream, progress }
}

describe("a stream that Node sends", () => {
  it.each([
    ["of known size", "bytes", 3 * MIB],
    ["of known size, without buffers of its own", undefined, 3 * MIB],
    ["of unknown size", "bytes", undefined],
  ] as const)("arrives whole: %s", async (_, type, size) => {
    const got = Promise.withResolvers<{ headers: IncomingMessage["headers"]; body: Buffer }>()
    const { files } = await serve((request, response) => {
      buffer(request).then((body) => {
        got.resolve({ headers: request.headers, body })
        response.end(JSON.stringify(ENTRY))
      }, got.reject)
    })
    expect(await files.write("large", counted(3, type).stream, { size })).toEqual(ENTRY)
    const { headers, body } = await got.promise
    expect(headers).toMatchObject({ authorization: "Bearer t" })
    expect(headers["content-length"]).toBe(size === undefined ? undefined : String(size))
    const expected = [1, 2, 3].map((byte) => Buffer.alloc(MIB, byte))
    expect(body.equals(Buffer.concat(expected))).toBe(true)
  })

  it("is read no faster than the server reads", async () => {
    const { files } = await serve((request) => void request.pause())
    const { stream, progress } = counted(1024)
    const abort = new AbortController()
    const written = files.write("large", stream, { signal: abort.signal })
    let before = -1
    const isStill = async () => {
      await setImmediate()
      const was = before
      before = progress.pulled
      return before > 0 && was === before
    }
    await expect.poll(isStill, { interval: 100 }).toBe(true)
    expect(progress.pulled).toBeLessThan(32)
    abort.abort()
    await expect(written).rejects.toMatchObject({ code: "cancelled" })
    await expect.poll(() => progress.isCancelled).toBe(true)
  })

  it("ends with the error of a server that refuses it in the middle", async () => {
    const error = new BerthError("files.disk_full", "the disk is full", { details: { a: 1 } })
    const { files } = await serve((request, response) => {
      request.once("data", () => {
        request.pause()
        response.writeHead(507, { connection: "close" }).end(JSON.stringify(error))
      })
    })
    const { stream, progress } = counted(1024)
    const written = files.write("large", stream, { size: 1024 * MIB })
    await expect(written).rejects.toMatchObject({ ...error.toJSON() })
    await expect.poll(() => progress.isCancelled).toBe(true)
  })

  it("ends when the server dies in the middle", async () => {
    const { files, url } = await serve((request) => {
      request.once("data", () => request.socket.resetAndDestroy())
    })
    const { stream, progress } = counted(1024)
    await expect(files.write("large", stream, { size: 1024 * MIB })).rejects.toMatchObject({
      code: "server.unreachable",
      details: { url, reason: expect.stringMatching(/^(ECONNRESET|EPIPE)$/) },
    })
    await expect.poll(() => progress.isCancelled).toBe(true)
  })

  it("is not sent to a server that does not listen", async () => {
    const client = createClient({ url: "http://127.0.0.1:1", fetch: nodeFetch })
    const { stream, progress } = counted(1024)
    const written = client.sandboxes.at(newId.sandbox()).files.write("large", stream)
    await expect(written).rejects.toMatchObject({
      code: "server.unreachable",
      details: { reason: "ECONNREFUSED" },
    })
    await expect.poll(() => progress.isCancelled).toBe(true)
  })

  it("is not sent by a call that was cancelled before", async () => {
    const { files } = await serve(() => {})
    const { stream, progress } = counted(1)
    const written = files.write("large", stream, { signal: AbortSignal.abort() })
    await expect(written).rejects.toMatchObject({ code: "cancelled" })
    await expect.poll(() => progress.isCancelled).toBe(true)
  })

  it("is not sent where no request can be made", async () => {
    const { stream, progress } = counted(1)
    const put = { method: "PUT", body: stream, duplex: "half" } as const
    await expect(nodeFetch("ftp://127.0.0.1/", put)).rejects.toMatchObject({
      code: "ERR_INVALID_PROTOCOL",
    })
    await expect.poll(() => progress.isCancelled).toBe(true)
  })

  it("ends with an answer whose status no response can have", async () => {
    const { files } = await serve((request, response) => {
      request.once("data", () => response.writeHead(999).flushHeaders())
    })
    const { stream, progress } = counted(1024)
    const written = files.write("large", stream)
    await expect(written).rejects.toMatchObject({ code: "server.unreachable" })
    await expect.poll(() => progress.isCancelled, { timeout: 2_000 }).toBe(true)
  })

  it("ends with an answer that leaves HTTP", { timeout: 10_000 }, async () => {
    const { files } = await serve((request) => {
      const switching =
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
      request.once("data", () => request.socket.write(switching))
    })
    const { stream, progress } = counted(1024)
    await expect(files.write("large", stream)).rejects.toMatchObject({
      code: "server.reply_invalid",
    })
    await expect.poll(() => progress.isCancelled).toBe(true)
  })

  it("has a connection of its own, which nobody used before", async () => {
    const ports: (number | undefined)[] = []
    const { files, url } = await serve((request, response) => {
      ports.push(request.socket.remotePort)
      request.resume().once("end", () => response.end(JSON.stringify(ENTRY)))
    })
    const [before] = await once(get(url), "response")
    await buffer(before)
    await setImmediate()
    await files.write("large", counted(1).stream)
    expect(new Set(ports).size).toBe(2)
  })

  it("ends with its own failure", async () => {
    const cut = Promise.withResolvers<void>()
    const { files } = await serve((request) => {
      request.resume().once("error", () => cut.resolve())
    })
    const failure = new BerthError("input.usage", "the file cannot be read: EIO")
    let pulled = 0
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        if (++pulled > 2) throw failure
        controller.enqueue(new Uint8Array(MIB))
      },
    })
    await expect(files.write("large", stream, { size: 3 * MIB })).rejects.toBe(failure)
    await cut.promise
  })

  it.each([2, 4])("of %i MiB is refused where 3 are announced", async (mib) => {
    const { files } = await serve((request) => void request.resume())
    const written = files.write("large", counted(mib).stream, { size: 3 * MIB })
    await expect(written).rejects.toMatchObject({
      code: "input.invalid",
      details: { path: "size", size: 3 * MIB, bytes: mib * MIB },
    })
  })

  it("follows no redirect", async () => {
    const { files } = await serve((request, response) => {
      request.resume()
      response.writeHead(307, { location: "http://127.0.0.1:1/" }).end()
    })
    const written = files.write("large", counted(1).stream)
    await expect(written).rejects.toMatchObject({ code: "server.reply_invalid" })
  })
})
