import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http"
import { finished, pipeline } from "node:stream/promises"
import { BerthError } from "@berth/protocol/errors"
import { collectGarbage } from "../features/collect-garbage.ts"
import type { HttpCall } from "../features/feature.ts"
import type { WorkerProcess } from "./worker-process.ts"

/** The headers of the worker's answer that are passed on to the client. */
export const ANSWERED = [
  "content-type",
  "content-length",
  "content-range",
  "accept-ranges",
  "etag",
  "last-modified",
]
const ASKED = ["content-length", "content-type", "range"]

/** Reuses free connections to the worker. */
export const workerConnections = (): Agent => new Agent({ keepAlive: true, maxFreeSockets: 8 })

/** Passes a call on to the worker and its answer back, as the bytes come and no faster than they are read. */
export const relay =
  (worker: WorkerProcess, agent: Agent, silenceLimitMs: number) =>
  async ({ request, response, signal }: HttpCall): Promise<void> => {
    try {
      const asked = httpRequest({
        socketPath: await worker.socketPath(),
        agent,
        signal,
        method: request.method,
        path: request.url,
        headers: pick(request.headers, ASKED),
      })
      const answer = await ask(asked, request, silenceLimitMs, () => worker.giveUp())
      response.writeHead(answer.statusCode ?? 502, pick(answer.headers, ANSWERED))
      await pipeline(answer, response)
    } catch (thrown) {
      throw signal.aborted ? signal.reason : await unavailable(request, thrown)
    }
  }

const ask = (
  asked: ClientRequest,
  request: IncomingMessage,
  silenceLimitMs: number,
  giveUp: () => void,
): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    asked.on("error", reject)
    // An answer that is to be followed by another protocol ends without an error.
    asked.once("close", () => reject(new Error("it closed the connection without an answer")))
    asked.on("response", (answer) => {
      asked.setTimeout(0)
      resolve(answer)
    })
    asked.setTimeout(silenceLimitMs, () => {
      // The client may be the silent one.
      const waitsForClient = !request.readableEnded && asked.writableLength === 0
      if (waitsForClient) return
      asked.destroy(tooSilent(silenceLimitMs))
      giveUp()
    })
    // Not a pipeline: a failure would close the client's connection, which must carry the error.
    request.pipe(asked)
    collectOften(request)
  })

/** Limit of the bytes of a passing body that wait for garbage collection. */
const GARBAGE_BYTES = 8 * 1024 * 1024

/**
 * Collects garbage while a body passes. Node allocates memory for every chunk, which V8 does not count when it decides
 * when to collect.
 */
const collectOften = (request: IncomingMessage): void => {
  let bytes = 0
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes < GARBAGE_BYTES) return
    bytes = 0
    collectGarbage({ type: "minor" })
  })
}

const pick = (headers: IncomingMessage["headers"], names: readonly string[]) =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )

/** Makes the error after the client has sent its whole body, as a client does not listen before that. */
const unavailable = async (request: IncomingMessage, cause: unknown): Promise<BerthError> => {
  if (!request.readableEnded) {
    request.unpipe()
    request.resume()
    await finished(request, { writable: false }).catch(() => {})
  }
  return cause instanceof BerthError ? cause : workerEnded(cause)
}

export const workerEnded = (cause?: unknown): BerthError =>
  new BerthError("files.unavailable", "the process that works with files ended", { cause })

export const tooSilent = (limitMs: number): BerthError =>
  new BerthError("deadline.exceeded", "the process that works with files does not answer", {
    details: { limitMs },
  })
