import { createServer } from "node:http"
import { Duplex } from "node:stream"
import { expect, it } from "vitest"
import { sendEvents } from "./event-stream.ts"

const KIB = 1024

/** A connection that takes the first bytes at once, and each chunk beyond them 10 ms after it came. */
const slowConnection = (takesBytes: number): Duplex => {
  let left = takesBytes
  const take = (chunk: Buffer, done: () => void) => {
    left -= chunk.length
    if (left > 0) done()
    else setTimeout(done, 10)
  }
  const connection = new Duplex({
    read: () => {},
    write: (chunk, _encoding, done) => take(chunk, done),
  })
  connection.push("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
  return connection
}

it("asks for the next page after the connection drained the end of the page before", async () => {
  let asked = 1
  const piece = Buffer.alloc(32 * KIB, "x")
  const pages = async function* () {
    yield { last: 1, pieces: Array.from({ length: 7 }, () => piece) }
    asked = 2
    yield { last: 2, pieces: [piece] }
  }
  const streams = { add: () => {}, stalled: () => {} }
  const { signal } = new AbortController()
  const sent = Promise.withResolvers<void>()
  const server = createServer((_, response) => {
    const stream = { streams, events: pages(), signal, heartbeatMs: 60_000 }
    sendEvents(response, stream as never).then(sent.resolve, sent.reject)
  })
  const connection = slowConnection(200 * KIB)
  server.emit("connection", connection)
  await sent.promise
  expect(asked).toBe(2)
  connection.destroy()
})
