import type { AgentOptions, ClientRequest, IncomingMessage } from "node:http"
import { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"

/** A stream as `fetch` gets it. */
type Stream = ReadableStream<Uint8Array<ArrayBuffer>>

/**
 * Node's `fetch`, but requests with a stream are sent over `node:http`. `fetch` itself takes twice the processor time
 * for them and leaves hundreds of megabytes of garbage, and the server must take apart what it sends in chunks.
 */
export const nodeFetch: typeof globalThis.fetch = async (input, init) => {
  if (!(init?.body instanceof ReadableStream)) return await globalThis.fetch(input, init)
  const { body, method = "POST", headers, signal } = init
  try {
    const url = new URL(input instanceof Request ? input.url : input)
    const http = await (url.protocol === "https:" ? import("node:https") : import("node:http"))
    signal?.throwIfAborted()
    const { options } = http.globalAgent as { options?: AgentOptions }
    const sent = http.request(url, {
      method,
      // A connection of its own: the server may close an idle one at any moment, and a stream cannot be sent again. The
      // global options name the environment's proxy, if node uses one.
      agent: new http.Agent({ ...options, keepAlive: false }),
      headers: Object.fromEntries(new Headers(headers)),
      ...(signal && { signal }),
    })
    return await sendStream(sent, body)
  } catch (thrown) {
    // Does nothing to a stream that is being sent: the end of the request cancels it.
    body.cancel(thrown).catch(() => {})
    throw thrown
  }
}

/**
 * Sends a stream as fast as the server reads it. Resolves when the answer begins, which may be before the stream's end.
 * Rejects with the stream's own failure. Cancels the stream if the call ends first. Follows no redirect.
 */
const sendStream = async (sent: ClientRequest, body: Stream): Promise<Response> => {
  const answered = answerTo(sent)
  write(body, sent, lengthOf(sent)).catch((failure) => sent.destroy(failure))
  const answer = await answered
  // The rest of the stream is useless when the answer is complete.
  answer.once("close", () => sent.destroy())
  try {
    return responseOf(answer)
  } catch (thrown) {
    sent.destroy()
    throw thrown
  }
}

const answerTo = (sent: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    sent.once("response", resolve)
    // Also listens when the answer is there: the connection may still break.
    sent.on("error", reject)
    // Node closes a connection that is to speak another protocol without an error.
    sent.once("close", () => reject(new BerthError("server.reply_invalid", NO_ANSWER)))
  })

const NO_ANSWER = "the server closed the connection without an answer"

const lengthOf = (sent: ClientRequest): number | undefined => {
  const length = sent.getHeader("content-length")
  return length === undefined ? undefined : Number(length)
}

/** Writes a stream as the body of a request. Throws if it is not as long as the request says. */
const write = async (
  body: Stream,
  sent: ClientRequest,
  length: number | undefined,
): Promise<void> => {
  const { read, cancel } = readerOf(body)
  const closed = Promise.withResolvers<void>()
  sent.once("close", () => {
    closed.resolve()
    cancel().catch(() => {})
  })
  let bytes = 0
  let writing: Promise<Uint8Array<ArrayBuffer> | undefined> = Promise.resolve(undefined)
  let spare: Uint8Array<ArrayBuffer> | undefined
  for (;;) {
    const { done, value } = await read(spare)
    if (sent.destroyed) return
    if (done) break
    bytes += value.length
    if (length !== undefined && bytes > length) throw notAsLong(bytes, length)
    spare = await writing
    const written = Promise.withResolvers<void>()
    sent.write(value, () => written.resolve())
    writing = Promise.race([written.promise, closed.promise]).then(() => value)
  }
  if (length !== undefined && bytes < length) throw notAsLong(bytes, length)
  sent.end()
}

/** The size of the two buffers of a byte stream: one is filled while the other is sent. */
const BUFFER_BYTES = 512 * 1024

/** A byte stream fills the buffers that it is given, so a large file leaves no garbage. Other streams bring their own. */
const readerOf = (body: Stream) => {
  try {
    const reader = body.getReader({ mode: "byob" })
    return {
      read: (spare = new Uint8Array(BUFFER_BYTES)) => reader.read(new Uint8Array(spare.buffer)),
      cancel: () => reader.cancel(),
    }
  } catch {
    const reader = body.getReader()
    return { read: () => reader.read(), cancel: () => reader.cancel() }
  }
}

const notAsLong = (bytes: number, size: number): BerthError =>
  new BerthError("input.invalid", "the content is not as long as its size says", {
    details: { path: "size", size, bytes },
  })

/** The statuses whose responses have no body. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304])

const responseOf = (answer: IncomingMessage): Response => {
  const { statusCode: status = 0, headersDistinct } = answer
  const headers = new Headers()
  for (const [name, values = []] of Object.entries(headersDistinct))
    for (const value of values) headers.append(name, value)
  const content = Readable.toWeb(answer) as Stream
  return new Response(BODILESS.has(status) ? null : content, { status, headers })
}
