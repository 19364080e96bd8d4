import { request } from "node:http"
import { boundInterim } from "@berth/host/bound-interim"
import { BerthError } from "@berth/protocol/errors"
import type { z } from "zod"
import { connectTo, type SandboxAddress } from "./address.ts"
import { failureOf, failureOfStatus } from "./failure.ts"
import { MAX_HEADER_BYTES } from "./limits.ts"
import { parseFromSandbox } from "./parse.ts"

/** A supervisor has its documents at hand, but a sandbox that is starved of CPU needs a while to answer. */
export const GET_DEADLINE_MS = 5_000

/** A boot trace is the largest document: some 60 steps, each with its last output. */
export const MAX_DOCUMENT_BYTES = 8 * 1024 * 1024

/** The cost of a piece of a document beside its bytes: a document in the smallest pieces is refused early. */
const CHUNK_COST_BYTES = 256

export interface GetOptions<Schema extends z.ZodType> {
  readonly address: SandboxAddress
  readonly token: string
  /** `/health`, `/boot` or `/activity`. */
  readonly path: string
  readonly schema: Schema
  readonly deadlineMs?: number
  /** Default: MAX_DOCUMENT_BYTES. */
  readonly maxBytes?: number
}

/** Reads a document of the sandbox, parsed, within its bounds of size and time. */
export const getFromSandbox = async <Schema extends z.ZodType>(
  options: GetOptions<Schema>,
  signal: AbortSignal,
): Promise<z.infer<Schema>> => {
  const { path, schema, deadlineMs = GET_DEADLINE_MS } = options
  const overdue = new AbortController()
  const deadline = setTimeout(() => {
    const details = { path, deadlineMs }
    overdue.abort(new BerthError("bridge.timed_out", "the sandbox did not answer", { details }))
  }, deadlineMs)
  try {
    const both = AbortSignal.any([signal, overdue.signal])
    const bytes = await get(options, both)
    return parseFromSandbox(bytes, schema)
  } finally {
    clearTimeout(deadline)
  }
}

const get = async (
  { address, token, path, maxBytes = MAX_DOCUMENT_BYTES }: Omit<GetOptions<z.ZodType>, "schema">,
  signal: AbortSignal,
): Promise<Buffer> => {
  const socket = await connectTo(address, signal)
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener("abort", onAbort)
  const sent = request({
    createConnection: () => socket,
    headers: { authorization: `Bearer ${token}`, connection: "close" },
    maxHeaderSize: MAX_HEADER_BYTES,
    path,
  })
  boundInterim(sent)
  sent.on("error", (error) => reject(failureOf(error)))
  sent.on("upgrade", () => reject(unexpected("an upgrade that was not asked for")))
  sent.on("response", (response) => {
    const { statusCode = 0, headers } = response
    if (statusCode !== 200) return reject(failureOfStatus(statusCode))
    if (headers["content-encoding"] !== undefined)
      return reject(unexpected("a document in an encoding that was not asked for"))
    const chunks: Buffer[] = []
    let bytes = 0
    response.on("data", (chunk: Buffer) => {
      bytes += chunk.length + CHUNK_COST_BYTES
      if (bytes > maxBytes) reject(tooLarge(maxBytes))
      else chunks.push(chunk)
    })
    response.on("error", (error) => reject(failureOf(error)))
    response.on("end", () => resolve(Buffer.concat(chunks)))
  })
  sent.end()
  try {
    return await promise
  } finally {
    signal.removeEventListener("abort", onAbort)
    sent.destroy()
    socket.destroy()
  }
}

const unexpected = (what: string): BerthError =>
  new BerthError("bridge.protocol_violated", `the sandbox answered with ${what}`)

const tooLarge = (max: number): BerthError =>
  new BerthError("bridge.limit_exceeded", "the sandbox's document is too large", {
    details: { limit: "bytes", max },
  })
