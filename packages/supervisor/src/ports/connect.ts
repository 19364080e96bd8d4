import { connect, type Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import { readListening } from "./listening.ts"

/** Time limit of a connection. On loopback it is made or refused at once, unless the program's queue is full. */
export const CONNECT_DEADLINE_MS = 5_000

/** The loopback addresses, which also reach programs that listen on all addresses. */
const LOOPBACK = ["127.0.0.1", "::1"]

/**
 * Connects to a port on loopback, or else on another address of the sandbox on which a program listens. Nothing is read
 * from the connection until a listener for its data is added.
 */
export const connectToPort = async (port: number, signal: AbortSignal): Promise<Socket> => {
  let cause: unknown
  const attempt = async (hosts: readonly string[]): Promise<Socket | undefined> => {
    for (const host of hosts)
      try {
        return await connectTo(host, port, signal)
      } catch (thrown) {
        signal.throwIfAborted()
        cause ??= thrown
      }
    return undefined
  }
  const socket = (await attempt(LOOPBACK)) ?? (await attempt(await addressesOf(port)))
  if (socket !== undefined) return socket
  const { code = "unknown" } = cause as NodeJS.ErrnoException
  throw new BerthError("ports.refused", `nothing takes connections on port ${port}: ${code}`, {
    details: { port, code },
    cause,
  })
}

/** The further addresses on which the port is open. The kernel's table has only addresses of this network. */
const addressesOf = async (port: number): Promise<string[]> => {
  const listening = await readListening()
  const addresses = listening.filter((each) => each.port === port).map(({ address }) => address)
  return [...new Set(addresses)].filter((address) => !REACHED.includes(address))
}

const REACHED = [...LOOPBACK, "0.0.0.0", "::"]

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
      // An error is followed by a "close" event.
      socket.on("error", () => {})
      resolve(socket)
    })
    if (cut.aborted) onCut()
  })
