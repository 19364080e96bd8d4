import { connect, type Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"

/** The deadline of a connection. On loopback it is made or refused at once, unless the program's queue is full. */
const DIAL_DEADLINE_MS = 5_000

/** Connects to a port of this host's 127.0.0.1. Each direction can be ended by itself. Nothing is read yet. */
export const dialHost = async (port: number, signal: AbortSignal): Promise<Socket> => {
  signal.throwIfAborted()
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true, noDelay: true })
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const deadline = setTimeout(() => reject(unreachable(port, "ETIMEDOUT")), DIAL_DEADLINE_MS)
  const onAbort = () => reject(signal.reason)
  signal.addEventListener("abort", onAbort)
  // Later errors are noticed by the socket's close.
  socket.on("error", (error: NodeJS.ErrnoException) =>
    reject(unreachable(port, error.code ?? "unknown", error)),
  )
  socket.once("connect", resolve)
  try {
    await promise
    return socket
  } catch (thrown) {
    socket.destroy()
    throw thrown
  } finally {
    clearTimeout(deadline)
    signal.removeEventListener("abort", onAbort)
  }
}

const unreachable = (port: number, code: string, cause?: unknown): BerthError =>
  new BerthError(
    "host_port.unreachable",
    `nothing takes connections on 127.0.0.1:${port} of the host: ${code}`,
    { details: { port, code }, cause },
  )
