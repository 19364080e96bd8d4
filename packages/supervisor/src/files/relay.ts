import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http"
import { finished, pipeline } from "node:stream/promises"
import { BerthError } from "@berth/protocol/errors"
import type { HttpCall } from "../features/feature.ts"
import type { WorkerProcess } from "./worker-process.ts"

/** Of what the worker says, these go on to the client. */
export const ANSWERED = [
  "content-type",
  "content-length",
  "content-range",
  "accept-ranges",
  "etag",
  "last-modified",
]
const ASKED = ["content-length", "content-type", "range"]

/** Connections to the worker that are free are used again. */
export const workerConnections = (): Agent => new Agent({ keepAlive: true, maxFreeSockets: 8 })

/** Passes a call on to the worker, and its answer back: both as they come, and no faster than they are taken. */
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
    asked.on("response", (answer) => {
      asked.setTimeout(0)
      resolve(answer)
    })
    asked.setTimeout(silenceLimitMs, () => {
      // It may be the client that is silent.
      const waitsForClient = !request.readableEnded && asked.writableLength === 0
      if (waitsForClient) return
      asked.destroy(tooSilent(silenceLimitMs))
      giveUp()
    })
    // Not a pipeline: one that fails would end the client's connection, over which the failure is to be told.
    request.pipe(asked)
    collectOften(request)
  })

/** What may wait to be collected of a body that passes. */
const GARBAGE_BYTES = 8 * 1024 * 1024

/** Node takes new memory for every piece of a body, and V8 does not count that when it decides when to collect. */
const collectOften = (request: IncomingMessage): void => {
  let bytes = 0
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes < GARBAGE_BYTES) return
    bytes = 0
    void globalThis.gc?.({ type: "minor", execution: "sync" })
  })
}

const pick = (headers: IncomingMessage["headers"], names: readonly string[]) =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )

/** Told when the client has sent all it has to send, for before that it does not listen. */
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
