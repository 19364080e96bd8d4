import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http"
import { boundInterim } from "@berth/host/bound-interim"
import { collectOften } from "@berth/host/collect-often"
import { BerthError } from "@berth/protocol/errors"
import { SANDBOX_HEADER } from "@berth/protocol/sandboxes"
import type { Use } from "../../sandboxes/requests/use.ts"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { untilGone } from "../until-gone.ts"
import { type Answer, answerTo } from "./answers.ts"
import { failureOf, MAX_ANSWER_HEADER_BYTES, violated } from "./failure.ts"
import { headersToSandbox } from "./headers.ts"
import { leaseRequestOf, mayLeave } from "./lease-requests.ts"
import { watchSilence } from "./silence.ts"
import type { Target } from "./target.ts"
import { writeAnswer } from "./write-answer.ts"

/** A client that still sends after an early answer is read while it sends, and no longer than this. */
const LINGER_SILENCE_MS = 5_000
const MAX_LINGER_MS = 30_000

/**
 * Passes a request to a sandbox and its answer back, each as fast as the other side takes it. Rejects while the answer
 * has not begun; later it can only be cut off.
 */
export const passHttp = async (
  sandboxes: Pick<Sandboxes, "running" | "use">,
  target: Target,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> => {
  const expected = answerTo(incoming.method, target.path.split("?", 1)[0] ?? "")
  if (expected === undefined)
    throw new BerthError("route.unknown", `no sandbox serves that: ${incoming.method}`)
  const signal = untilGone(outgoing)
  const use = await sandboxes.use.begin(target.sandbox, leaseRequestOf(target.feature), signal)
  try {
    await passTo(sandboxes, use, { path: target.path, expected }, { incoming, outgoing, signal })
  } finally {
    if (mayLeave(incoming.method, target.feature)) await use.leave()
    await use.end()
  }
}

interface Wanted {
  readonly path: string
  readonly expected: Answer
}

interface Passing {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly signal: AbortSignal
}

const passTo = async (
  sandboxes: Pick<Sandboxes, "running" | "use">,
  use: Use,
  { path, expected }: Wanted,
  { incoming, outgoing, signal }: Passing,
): Promise<void> => {
  const { sandbox } = use
  const { socket, token } = await use.dial(signal)
  const sent = request({
    createConnection: () => socket,
    method: incoming.method,
    path,
    headers: headersToSandbox(incoming.headers, token),
    maxHeaderSize: MAX_ANSWER_HEADER_BYTES,
  })
  try {
    const answer = await exchange(sandboxes, sandbox, { incoming, sent, signal })
    check(answer)
    outgoing.setHeader(SANDBOX_HEADER, sandbox)
    if (!incoming.complete) {
      outgoing.setHeader("connection", "close")
      await linger(incoming)
    }
    await writeAnswer(expected, answer, { asked: incoming, outgoing, signal })
  } finally {
    sent.destroy()
    socket.destroy()
  }
}

/** Answers with an error while the request may still be arriving. */
export const answerEarly = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  error: BerthError,
): void => {
  if (!incoming.complete) outgoing.setHeader("connection", "close")
  const body = Buffer.from(JSON.stringify(error))
  outgoing
    .writeHead(error.status, {
      "content-type": "application/json; charset=utf-8",
      "content-length": body.length,
    })
    .write(body)
  void linger(incoming).then(() => outgoing.end())
}

interface Exchange {
  readonly incoming: IncomingMessage
  readonly sent: ClientRequest
  readonly signal: AbortSignal
}

/** Sends the request, and returns the beginning of the answer. */
const exchange = async (
  sandboxes: Pick<Sandboxes, "running" | "use">,
  sandbox: Target["sandbox"],
  { incoming, sent, signal }: Exchange,
): Promise<IncomingMessage> => {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener("abort", onAbort)
  if (signal.aborted) onAbort()
  boundInterim(sent)
  sent.on("error", (error) => reject(failureOf(error)))
  sent.on("response", resolve)
  sent.on("upgrade", () => reject(violated("answered with an upgrade that was not asked for")))
  using _silence = watchSilence(sandboxes, sandbox, {
    owes: () => incoming.complete || sent.writableNeedDrain,
    progress: () => sent.socket?.bytesWritten ?? 0,
    onOver: reject,
  })
  collectOften(incoming)
  incoming.pipe(sent)
  try {
    return await promise
  } finally {
    signal.removeEventListener("abort", onAbort)
    incoming.unpipe(sent)
  }
}

const check = ({ statusCode = 0, headers }: IncomingMessage): void => {
  if (statusCode === 401)
    throw new BerthError("bridge.unauthorized", "the sandbox refused its token")
  if (statusCode < 200 || (statusCode >= 300 && statusCode < 400) || statusCode > 599)
    throw violated("answered with a status that was not asked for", { status: statusCode })
  if (headers["content-encoding"] !== undefined)
    throw violated("answered in an encoding that was not asked for")
}

/**
 * Reads the rest of the request. Node closes a connection with the end of its last answer, and a client that is still
 * writing then would lose the answer.
 */
const linger = async (incoming: IncomingMessage): Promise<void> => {
  if (incoming.complete || incoming.destroyed) return
  incoming.resume()
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(silent)
      clearTimeout(late)
      resolve()
    }
    const silent = setTimeout(done, LINGER_SILENCE_MS)
    const late = setTimeout(done, MAX_LINGER_MS)
    incoming.on("data", () => silent.refresh())
    incoming.once("end", done).once("close", done).once("error", done)
  })
}
