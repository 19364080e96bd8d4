import { type IncomingMessage, request } from "node:http"
import type { Socket } from "node:net"
import { boundInterim } from "@berth/host/bound-interim"
import { BerthError } from "@berth/protocol/errors"
import type { Use } from "../../sandboxes/requests/use.ts"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { failureOf, MAX_ANSWER_HEADER_BYTES, violated } from "./failure.ts"
import { acceptOf, type Handshake } from "./handshake.ts"
import { readError } from "./read-answer.ts"
import { watchSilence } from "./silence.ts"
import type { Target } from "./target.ts"

/** Opens a WebSocket to a sandbox. Bytes that came with its handshake are put back. Rejects with why there is none. */
export const openSocket = async (
  sandboxes: Pick<Sandboxes, "running">,
  use: Use,
  { path, key }: Pick<Target, "path"> & Pick<Handshake, "key">,
  signal: AbortSignal,
): Promise<Socket> => {
  const { sandbox } = use
  const { socket, token } = await use.dial(signal)
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener("abort", onAbort)
  if (signal.aborted) onAbort()
  // The client's own key is passed, so that both ends speak to each other directly. No extension is offered.
  const sent = request({
    createConnection: () => socket,
    path,
    headers: {
      authorization: `Bearer ${token}`,
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": key,
    },
    maxHeaderSize: MAX_ANSWER_HEADER_BYTES,
  })
  boundInterim(sent)
  sent.on("error", (error) => reject(failureOf(error)))
  sent.on("response", (answer) => void readRefusal(answer, signal).then(reject))
  sent.on("upgrade", ({ headers }, _socket, head) => {
    if (headers["sec-websocket-accept"] !== acceptOf(key))
      return reject(violated("answered with a wrong handshake"))
    if (headers["sec-websocket-extensions"] || headers["sec-websocket-protocol"])
      return reject(violated("chose what was not offered"))
    if (head.length > 0) socket.unshift(head)
    resolve(socket)
  })
  using _silence = watchSilence(sandboxes, sandbox, {
    owes: () => true,
    progress: () => 0,
    onOver: reject,
  })
  sent.end()
  try {
    return await promise
  } catch (thrown) {
    sent.destroy()
    socket.destroy()
    throw thrown
  } finally {
    signal.removeEventListener("abort", onAbort)
  }
}

const readRefusal = async (answer: IncomingMessage, signal: AbortSignal): Promise<Error> => {
  const { statusCode = 0 } = answer
  if (statusCode === 401)
    return new BerthError("bridge.unauthorized", "the sandbox refused its token")
  if (statusCode < 400 || statusCode > 599)
    return violated("answered without the upgrade", { status: statusCode })
  return await readError(answer, signal).catch((thrown: Error) => thrown)
}
