import { request } from "node:http"
import type { Socket } from "node:net"
import { boundInterim } from "@berth/host/bound-interim"
import { BerthError } from "@berth/protocol/errors"
import { connectTo, type SandboxAddress } from "./address.ts"
import { failureOf, failureOfStatus } from "./failure.ts"
import { MAX_HEADER_BYTES } from "./limits.ts"

/** A supervisor has the connection that waits for the tunnel at hand. */
const TUNNEL_DEADLINE_MS = 5_000

export interface TunnelOptions {
  readonly address: SandboxAddress
  readonly token: string
  readonly path: string
  readonly deadlineMs?: number
}

/** Opens a connection to the sandbox that carries plain bytes and can be half-closed. The caller ends it. */
export const openTunnel = async (
  { address, token, path, deadlineMs = TUNNEL_DEADLINE_MS }: TunnelOptions,
  signal: AbortSignal,
): Promise<Socket> => {
  const overdue = new AbortController()
  const deadline = setTimeout(() => overdue.abort(timedOut(deadlineMs)), deadlineMs)
  const either = AbortSignal.any([signal, overdue.signal])
  const opened = Promise.withResolvers<void>()
  const onAbort = () => opened.reject(either.reason)
  let socket: Socket | undefined
  try {
    const connected = await connectTo(address, either)
    socket = connected
    connected.allowHalfOpen = true
    either.addEventListener("abort", onAbort)
    const sent = request({
      createConnection: () => connected,
      path,
      headers: { authorization: `Bearer ${token}`, connection: "upgrade", upgrade: "bytes" },
      maxHeaderSize: MAX_HEADER_BYTES,
    })
    boundInterim(sent)
    sent.on("error", (error) => opened.reject(failureOf(error)))
    sent.on("response", ({ statusCode = 0 }) => opened.reject(failureOfStatus(statusCode)))
    sent.on("upgrade", (_response, _socket, head: Buffer) => {
      if (head.length > 0) connected.unshift(head)
      opened.resolve()
    })
    sent.end()
    await opened.promise
    return connected
  } catch (thrown) {
    socket?.destroy()
    throw thrown
  } finally {
    clearTimeout(deadline)
    either.removeEventListener("abort", onAbort)
  }
}

const timedOut = (deadlineMs: number): BerthError =>
  new BerthError("bridge.timed_out", "the sandbox did not take the connection", {
    details: { deadlineMs },
  })
