import { request as httpRequest, type IncomingMessage } from "node:http"
import { BerthError, ERRORS, type ErrorCode } from "@berth/protocol/errors"
import type { WebSocket } from "ws"
import { MAX_JSON_BYTES } from "../features/body.ts"
import type { SocketRoute } from "../features/feature.ts"
import { records, TOO_LONG } from "./records.ts"
import { workerEnded } from "./relay.ts"
import type { WorkerProcess } from "./worker-process.ts"

/** Time limit from the worker's first answer to the client's connection. */
const TAKE_DEADLINE_MS = 10_000
/** Time limit for reading a tree: 100,000 files take some seconds on a busy machine. */
const READY_DEADLINE_MS = 120_000
/** Limit of one message from the worker: some hundred changes with long names. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024
/**
 * Limit of the bytes that wait for a client that does not read. The worker waits then, and reports later that changes
 * were lost.
 */
const MAX_UNSENT_BYTES = 256 * 1024
const NEWLINE = 0x0a
const CLOSE = { normal: 1000, failed: 1011 } as const

/** Passes on the worker's messages, each as one frame. */
export const watchSocket = (worker: WorkerProcess): SocketRoute => ({
  path: "/files/watch",
  open: async ({ query, signal }) => {
    const gone = new AbortController()
    const over = AbortSignal.any([signal, gone.signal])
    const deadline = setTimeout(() => gone.abort(tooLate()), READY_DEADLINE_MS)
    try {
      const messages = await ask(await worker.socketPath(), query, over)
      // Ends the watch if no connection comes, as only a connection could end it.
      const taken = setTimeout(() => gone.abort(), TAKE_DEADLINE_MS)
      return (websocket) => {
        clearTimeout(taken)
        void passOn(messages, websocket).finally(() => gone.abort())
      }
    } catch (thrown) {
      throw over.aborted ? over.reason : thrown
    } finally {
      clearTimeout(deadline)
    }
  },
})

const ask = (
  socketPath: string,
  query: URLSearchParams,
  signal: AbortSignal,
): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const asked = httpRequest({ socketPath, path: `/files/watch?${query}`, agent: false, signal })
    asked.on("error", (cause) => reject(workerEnded(cause)))
    // Without a listener, node would close the connection without an error.
    asked.on("upgrade", (_, socket) => {
      socket.destroy()
      reject(workerEnded())
    })
    asked.on("response", (answer) => {
      answer.on("error", () => {})
      if (answer.statusCode === 200) resolve(answer)
      else refusal(answer).then(reject, reject)
    })
    asked.end()
  })

const passOn = async (messages: IncomingMessage, websocket: WebSocket): Promise<void> => {
  const limits = { end: NEWLINE, maxBytes: MAX_MESSAGE_BYTES }
  try {
    for await (const message of records(messages, limits)) {
      if (message === TOO_LONG) throw workerEnded()
      await send(websocket, message)
    }
    websocket.close(CLOSE.normal)
  } catch {
    websocket.close(CLOSE.failed, "the process that works with files ended")
  }
}

const send = (websocket: WebSocket, message: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    websocket.send(message, { binary: false }, (error) => (error ? reject(error) : resolve()))
    if (websocket.bufferedAmount < MAX_UNSENT_BYTES) resolve()
  })

/**
 * The error in the worker's refusal. The user controls the worker's answer, so only known error codes are passed on.
 */
const refusal = async (answer: IncomingMessage): Promise<BerthError> => {
  let text = ""
  for await (const chunk of answer.setEncoding("utf8") as AsyncIterable<string>) {
    text += chunk
    if (text.length > MAX_JSON_BYTES) throw workerEnded()
  }
  try {
    const { code, message, details } = JSON.parse(text)
    if (Object.hasOwn(ERRORS, code))
      return new BerthError(code as ErrorCode, String(message), { details: { ...details } })
  } catch {
    // The answer is no error of ours.
  }
  return workerEnded()
}

const tooLate = (): BerthError =>
  new BerthError("deadline.exceeded", "the folder took too long to look at", {
    details: { limitMs: READY_DEADLINE_MS },
  })
