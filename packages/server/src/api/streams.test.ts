import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import type { StreamPage } from "../events/pages.ts"
import { Turns } from "../events/turns.ts"
import { sendEvents } from "./event-stream.ts"
import { Streams } from "./streams.ts"

const PAGE_BYTES = 256 * 1024
const UNREAD_BYTES = 4 * 1024 * 1024
const READERS = 40

/** Pages without end for one reader. */
async function* endless(): AsyncGenerator<StreamPage> {
  for (let last = 1; ; last++) {
    await new Promise((resolve) => setImmediate(resolve))
    yield { last, pieces: [Buffer.alloc(PAGE_BYTES, "x")] }
  }
}

it("drops clients that do not read to stay within its budget, and still serves a client that reads", async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-streams-"))
  const path = join(directory, "socket")
  const streams = new Streams({ streams: READERS, unreadBytes: UNREAD_BYTES })
  const responses: ServerResponse[] = []
  const stop = new AbortController()
  let dropped = 0
  let mostBytes = 0
  const server = createServer((_, response) => {
    responses.push(response)
    response.once("close", () => dropped++)
    const closed = new AbortController()
    response.once("close", () => closed.abort())
    const signal = AbortSignal.any([stop.signal, closed.signal])
    void sendEvents(response, { streams, events: endless(), signal, heartbeatMs: 60_000 })
  })
  server.listen(path)
  await once(server, "listening")
  onTestFinished(() => {
    stop.abort()
    server.closeAllConnections()
    server.close()
    rmSync(directory, { recursive: true, force: true })
  })
  const connect = async (): Promise<IncomingMessage> => {
    const sent = request({ socketPath: path })
    sent.on("error", () => {})
    sent.end()
    const [answer] = await once(sent, "response")
    answer.on("error", () => {})
    return answer as IncomingMessage
  }
  const reading = await connect()
  let readBytes = 0
  reading.on("data", (chunk: Buffer) => {
    readBytes += chunk.length
    const unread = responses.reduce((sum, { writableLength }) => sum + writableLength, 0)
    mostBytes = Math.max(mostBytes, unread)
  })
  for (let count = 1; count < READERS; count++) await connect()
  await expect.poll(() => dropped, { timeout: 20_000 }).toBeGreaterThan(10)
  const before = readBytes
  await expect.poll(() => readBytes - before, { timeout: 20_000 }).toBeGreaterThan(4 * PAGE_BYTES)
  expect(mostBytes).toBeLessThan(UNREAD_BYTES + 4 * PAGE_BYTES)
})

it("refuses more streams than may be open, and names the limit", async () => {
  const streams = new Streams({ streams: 0, unreadBytes: 1 })
  expect(() => streams.check()).toThrow(
    expect.objectContaining({ code: "events.too_many", status: 429, details: { max: 0 } }),
  )
})

it("lets other work run between the reads of 300 clients that begin together", async () => {
  const turns = new Turns()
  let others = 0
  let isOver = false
  const other = () => {
    others++
    if (!isOver) setImmediate(other)
  }
  setImmediate(other)
  const read = async () => {
    for (const endMs = performance.now() + 1; performance.now() < endMs; );
  }
  await Promise.all(Array.from({ length: 300 }, () => turns.take("read", read)))
  isOver = true
  expect(others).toBeGreaterThan(10)
})
