import { once } from "node:events"
import { type ClientRequest, type IncomingMessage, request } from "node:http"
import type { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { boundInterim } from "../host/bound-interim.ts"
import { connectTo, type SandboxAddress } from "./address.ts"
import { failureOf, failureOfStatus } from "./failure.ts"
import { MAX_HEADER_BYTES } from "./limits.ts"

/**
 * The time that the sandbox may take to read on, and to answer. Time in which there is nothing to send does not count.
 */
export const PUT_IDLE_MS = 30_000

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
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  const onAbort = () => failed.reject(signal.reason)
  signal.addEventListener("abort", onAbort)
  let sent: ClientRequest | undefined
  try {
    const socket = await within(idleMs, connectTo(address, signal), failed.promise)
    sent = request({
      createConnection: () => socket,
      method: "PUT",
      path,
      headers: { authorization: `Bearer ${token}`, connection: "close" },
      maxHeaderSize: MAX_HEADER_BYTES,
    })
    await send(sent, body, idleMs, failed)
  } finally {
    signal.removeEventListener("abort", onAbort)
    body.destroy()
    sent?.destroy()
    sent?.socket?.destroy()
  }
}

const send = async (
  sent: ClientRequest,
  body: Readable,
  idleMs: number,
  { promise: failed, reject }: PromiseWithResolvers<never>,
): Promise<void> => {
  const answered = Promise.withResolvers<void>()
  let isEnded = false
  boundInterim(sent)
  sent.on("error", (error) => reject(failureOf(error)))
  sent.on("upgrade", () => reject(failureOfStatus(101)))
  sent.on("response", (response: IncomingMessage) => {
    response.on("error", () => {}).resume()
    const { statusCode = 0 } = response
    if (isTaken(statusCode) && isEnded) answered.resolve()
    else reject(refused(statusCode))
  })
  const chunks = body[Symbol.asyncIterator]()
  for (;;) {
    const { done, value } = await Promise.race([chunks.next(), failed])
    if (done) break
    if (!sent.write(value)) await within(idleMs, once(sent, "drain"), failed)
  }
  isEnded = true
  sent.end()
  await within(idleMs, answered.promise, failed)
}

const isTaken = (status: number): boolean => status === 204 || status === 200 || status === 201

const within = async <Value>(
  ms: number,
  promise: Promise<Value>,
  failed: Promise<never>,
): Promise<Value> => {
  const overdue = Promise.withResolvers<never>()
  const deadline = setTimeout(() => overdue.reject(timedOut(ms)), ms)
  // The promise that loses the race may still fail.
  promise.catch(() => {})
  try {
    return await Promise.race([promise, failed, overdue.promise])
  } finally {
    clearTimeout(deadline)
  }
}

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
