import { once } from "node:events"
import { type ClientRequest, type IncomingMessage, request } from "node:http"
import type { Readable } from "node:stream"
import { abortable } from "@berth/host/abortable"
import { boundInterim } from "@berth/host/bound-interim"
import { BerthError } from "@berth/protocol/errors"
import { connectTo, type SandboxAddress } from "./address.ts"
import { failureOf, failureOfStatus } from "./failure.ts"
import { MAX_HEADER_BYTES } from "./limits.ts"

/**
 * The time that the sandbox may take to read on, and to answer. Time in which there is nothing to send does not count.
 */
const PUT_IDLE_MS = 30_000

export interface PutOptions {
  readonly address: SandboxAddress
  readonly token: string
  readonly path: string
  readonly body: Readable
  readonly idleMs?: number
}

/**
 * Sends a stream to the sandbox, as fast as the sandbox reads it. Resolves when the sandbox says that it has all of it.
 * However it ends, the stream and the connection are over then.
 */
export const putToSandbox = async (
  { address, token, path, body, idleMs = PUT_IDLE_MS }: PutOptions,
  signal: AbortSignal,
): Promise<void> => {
  // Handles errors until the body is read: an error without a listener would end the server.
  body.on("error", () => {})
  const failed = new AbortController()
  /** Ends every wait with this reason; only the first counts. */
  const fail = (reason: unknown) => failed.abort(reason)
  const onAbort = () => fail(signal.reason)
  signal.addEventListener("abort", onAbort)
  if (signal.aborted) onAbort()
  const inTime = async <Value>(work: Promise<Value>): Promise<Value> => {
    const deadline = setTimeout(() => fail(timedOut(idleMs)), idleMs)
    try {
      return await work
    } finally {
      clearTimeout(deadline)
    }
  }
  let sent: ClientRequest | undefined
  try {
    const socket = await inTime(connectTo(address, failed.signal))
    sent = request({
      createConnection: () => socket,
      method: "PUT",
      path,
      headers: { authorization: `Bearer ${token}`, connection: "close" },
      maxHeaderSize: MAX_HEADER_BYTES,
    })
    await send(sent, body, { fail, failed: failed.signal, inTime })
  } catch (thrown) {
    throw failed.signal.aborted ? failed.signal.reason : thrown
  } finally {
    signal.removeEventListener("abort", onAbort)
    body.destroy()
    sent?.destroy()
    sent?.socket?.destroy()
  }
}

interface Waiting {
  fail(reason: unknown): void
  readonly failed: AbortSignal
  /** Fails where the work takes longer than the sandbox may. */
  inTime<Value>(work: Promise<Value>): Promise<Value>
}

const send = async (
  sent: ClientRequest,
  body: Readable,
  { fail, failed, inTime }: Waiting,
): Promise<void> => {
  const answered = Promise.withResolvers<void>()
  let isEnded = false
  boundInterim(sent)
  sent.on("error", (error) => fail(failureOf(error)))
  sent.on("upgrade", () => fail(failureOfStatus(101)))
  sent.on("response", (response: IncomingMessage) => {
    response.on("error", () => {}).resume()
    const { statusCode = 0 } = response
    if (isTaken(statusCode) && isEnded) answered.resolve()
    else fail(refused(statusCode))
  })
  const chunks = body[Symbol.asyncIterator]()
  for (;;) {
    const { done, value } = await abortable(chunks.next(), failed)
    if (done) break
    if (!sent.write(value)) await inTime(once(sent, "drain", { signal: failed }))
  }
  isEnded = true
  sent.end()
  await inTime(abortable(answered.promise, failed))
}

const isTaken = (status: number): boolean => status === 204 || status === 200 || status === 201

const timedOut = (deadlineMs: number): BerthError =>
  new BerthError("bridge.timed_out", "the sandbox did not take what was sent to it", {
    details: { deadlineMs },
  })

const refused = (status: number): BerthError =>
  status === 401
    ? failureOfStatus(status)
    : new BerthError("bridge.refused", "the sandbox did not take what was sent to it", {
        details: { status },
      })
