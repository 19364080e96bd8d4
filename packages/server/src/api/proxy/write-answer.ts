import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http"
import { pipeline } from "node:stream/promises"
import { collectOften } from "@berth/host/collect-often"
import type { Answer, BytesAnswer } from "./answers.ts"
import { violated } from "./failure.ts"
import { parsedLines } from "./lines.ts"
import { readAnswer, readError } from "./read-answer.ts"

export interface AnswerParts {
  readonly asked: IncomingMessage
  readonly outgoing: ServerResponse
  /** Fires when the client is gone. */
  readonly signal: AbortSignal
}

/**
 * Writes a sandbox's answer to the client. Everything in JSON is parsed and written anew, failures are thrown, and
 * bytes pass as they are, under the content type of the call. Rejects while nothing was written yet; later an answer
 * can only be cut off.
 */
export const writeAnswer = async (
  expected: Answer,
  answer: IncomingMessage,
  { asked, outgoing, signal }: AnswerParts,
): Promise<void> => {
  const { statusCode = 0 } = answer
  if (statusCode >= 400) throw await readError(answer, signal)
  switch (expected.kind) {
    case "nothing":
      requireStatus(statusCode, 204)
      return endNow(outgoing, 204)
    case "json": {
      requireStatus(statusCode, expected.status)
      const body = JSON.stringify(await readAnswer(answer, expected.schema, signal))
      const headers = {
        "content-type": "application/json; charset=utf-8",
        "content-length": Buffer.byteLength(body),
      }
      outgoing.writeHead(statusCode, { ...SAFE, ...headers }).end(body)
      return
    }
    case "lines":
      requireStatus(statusCode, 200)
      outgoing.writeHead(200, { ...SAFE, "content-type": "application/x-ndjson" })
      return await pass(answer, outgoing, parsedLines(expected.schema, expected.maxLines))
    case "bytes":
      if (statusCode === 204 && expected.mayBeNothing) return endNow(outgoing, 204)
      outgoing.writeHead(statusCode, bytesHeaders(expected, answer, asked.headers))
      return await pass(answer, outgoing)
  }
}

/** Headers that keep a browser from taking a sandbox's bytes for a page or a script. */
const SAFE = { "x-content-type-options": "nosniff", "cache-control": "no-store" }

const endNow = (outgoing: ServerResponse, status: number): void =>
  void outgoing.writeHead(status, SAFE).end()

const pass = async (
  answer: IncomingMessage,
  outgoing: ServerResponse,
  ...between: NodeJS.ReadWriteStream[]
): Promise<void> => {
  collectOften(answer)
  await pipeline([answer, ...between, outgoing]).catch(() => {})
}

const bytesHeaders = (
  { type, inParts = false }: BytesAnswer,
  { statusCode = 0, headers }: IncomingMessage,
  asked: IncomingHttpHeaders,
): Record<string, string> => {
  const isPart = inParts && asked.range !== undefined && statusCode === 206
  if (statusCode !== 200 && !isPart) throw otherStatus(statusCode)
  const { etag, "content-length": length, "content-range": range } = headers
  if (isPart && !/^bytes \d{1,16}-\d{1,16}\/\d{1,16}$/.test(range ?? ""))
    throw violated("answered with a part that says not which")
  return {
    ...SAFE,
    "content-type": type,
    ...(length !== undefined && { "content-length": length }),
    ...(inParts && { "accept-ranges": "bytes" }),
    ...(isPart && range !== undefined && { "content-range": range }),
    ...(etag !== undefined && /^"[\w-]{1,128}"$/.test(etag) && { etag }),
  }
}

const requireStatus = (status: number, expected: number): void => {
  if (status !== expected) throw otherStatus(status)
}

const otherStatus = (status: number) =>
  violated("answered with a status that was not asked for", { status })
