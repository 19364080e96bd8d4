import { connect, type Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"

/** On loopback a connection is made or refused at once, unless the program's queue is full. */
export const CONNECT_DEADLINE_MS = 5_000

const LOOPBACK = ["127.0.0.1", "::1"]

/** A connection to a port of the loopback. Nothing is read from it until someone listens to its data. */
export const connectToPort = async (port: number, signal: AbortSignal): Promise<Socket> => {
  let cause: unknown
  for (const host of LOOPBACK)
    try {
      return await connectTo(host, port, signal)
    } catch (thrown) {
      signal.throwIfAborted()
      cause ??= thrown
    }
  const { code = "unknown" } = cause as NodeJS.ErrnoException
  throw new BerthError("ports.refused", `nothing takes connections on port ${port}: ${code}`, {
    details: { port, code },
    cause,
  })
}

const connectTo = (host: string, port: number, signal: AbortSignal): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true })
    const deadline = AbortSignal.timeout(CONNECT_DEADLINE_MS)
    const cut = AbortSignal.any([signal, deadline])
    const onCut = () => {
      const late = Object.assign(new Error("no answer in time"), { code: "ETIMEDOUT" })
      socket.destroy(signal.aborted ? (signal.reason as Error) : late)
    }
    cut.addEventListener("abort", onCut, { once: true })
    socket.once("error", reject)
    socket.once("connect", () => {
      cut.removeEventListener("abort", onCut)
      socket.off("error", reject)
      // What breaks it is told by its close.
      socket.on("error", () => {})
      resolve(socket)
    })
    if (cut.aborted) onCut()
  })
