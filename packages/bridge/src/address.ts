import { closeSync, constants, fstatSync, openSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"

export type SandboxAddress =
  /** Only the last part of the path is under the sandbox's control: the directory is the server's. */
  { readonly path: string } | { readonly host: string; readonly port: number }

/** Open flag that is not among Node's constants. It is the same on x64 and on arm64 (asm-generic/fcntl.h). */
const O_PATH = 0o10000000

/** Connects to the sandbox's socket. The caller ends the connection. */
export const connectTo = (address: SandboxAddress, signal: AbortSignal): Promise<Socket> => {
  signal.throwIfAborted()
  if ("host" in address) return connected(connect(address.port, address.host), address, signal)
  const descriptor = openSocketFile(address.path)
  return connected(connect(`/proc/self/fd/${descriptor}`), address, signal).finally(() =>
    closeSync(descriptor),
  )
}

/**
 * Opens the socket file without following links, checks it, and returns a descriptor to connect by. connect() follows
 * links, and a process inside could put a link to any socket of the host in the place of its own.
 */
const openSocketFile = (path: string): number => {
  const descriptor = open(path)
  if (fstatSync(descriptor).isSocket()) return descriptor
  closeSync(descriptor)
  throw new BerthError(
    "bridge.not_a_socket",
    "in the place of the sandbox's socket is another file",
    {
      details: { path },
    },
  )
}

const open = (path: string): number => {
  try {
    return openSync(path, O_PATH | constants.O_NOFOLLOW)
  } catch (cause) {
    throw unreachable({ path }, cause)
  }
}

const connected = (socket: Socket, address: SandboxAddress, signal: AbortSignal): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const onAbort = () => {
      socket.destroy()
      reject(signal.reason)
    }
    const onError = (cause: Error) => {
      signal.removeEventListener("abort", onAbort)
      reject(unreachable(address, cause))
    }
    signal.addEventListener("abort", onAbort, { once: true })
    socket.once("error", onError)
    socket.once("connect", () => {
      signal.removeEventListener("abort", onAbort)
      // Handles errors until the user of the socket listens: an error without a listener would end the server.
      socket.on("error", () => {})
      resolve(socket)
    })
  })

const unreachable = (address: SandboxAddress, cause: unknown): BerthError =>
  new BerthError("bridge.unreachable", "nothing listens on the sandbox's socket", {
    details: { ...address, systemSaid: cause instanceof Error ? cause.message : String(cause) },
    cause,
  })
