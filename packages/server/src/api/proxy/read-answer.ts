import type { IncomingMessage } from "node:http"
import type { BerthError } from "@berth/protocol/errors"
import type { z } from "zod"
import { failureOf, violated } from "./failure.ts"
import { JsonScan, tooMuch } from "./json-scan.ts"
import { saidError } from "./said-error.ts"

/** The bound on a JSON answer. A listing of 10,000 files with long names has a quarter of it. */
export const MAX_JSON_BYTES = 16 * 1024 * 1024

/** The bound on a sandbox's error response. */
export const MAX_ERROR_BYTES = 64 * 1024

/** Reads a JSON answer and parses it with the schema. Fields that the schema does not name are left out. */
export const readAnswer = async <Schema extends z.ZodType>(
  answer: IncomingMessage,
  schema: Schema,
  signal: AbortSignal,
): Promise<z.infer<Schema>> => {
  const parsed = schema.safeParse(await readJson(answer, MAX_JSON_BYTES, signal))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw violated("answered in another form than was asked for", {
    where: issue?.path.slice(0, 4).join(".").slice(0, 200),
    problem: issue?.code === "custom" ? issue.message : issue?.code,
  })
}

/** Reads the error that a sandbox answered with. */
export const readError = async (
  answer: IncomingMessage,
  signal: AbortSignal,
): Promise<BerthError> => {
  const error = saidError(await readJson(answer, MAX_ERROR_BYTES, signal))
  return error ?? violated("failed in words that are not of the protocol")
}

const readJson = async (
  answer: IncomingMessage,
  maxBytes: number,
  signal: AbortSignal,
): Promise<unknown> => {
  const stop = () => answer.destroy(signal.reason)
  signal.addEventListener("abort", stop, { once: true })
  try {
    signal.throwIfAborted()
    const bytes = await readBounded(answer, maxBytes)
    return parse(bytes)
  } catch (thrown) {
    throw signal.aborted ? signal.reason : failureOf(thrown)
  } finally {
    signal.removeEventListener("abort", stop)
  }
}

const readBounded = async (answer: IncomingMessage, maxBytes: number): Promise<Buffer> => {
  const scan = new JsonScan()
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw tooMuch("bytes", maxBytes)
    scan.take(chunk)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const parse = (bytes: Buffer): unknown => {
  try {
    return JSON.parse(bytes.toString("utf8"))
  } catch {
    throw violated("answered with what is not JSON")
  }
}
