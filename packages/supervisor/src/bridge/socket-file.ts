import { lstatSync } from "node:fs"
import type { Server } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import { listen } from "./listen.ts"

export interface SocketFileWatch {
  /** Ends the watch. The server keeps listening. */
  end(): void
}

export interface SocketFileOptions {
  readonly onFault: (error: BerthError) => void
  readonly socketLookMs?: number
}

/** Interval of the checks. A server that lost its connection waits this long at most for a socket that was deleted. */
const SOCKET_LOOK_MS = 1_000

/**
 * Listens again when the socket is deleted or replaced. Open connections are not affected, but a server that starts
 * later would find nothing to connect to. The socket is polled because a sandbox's kernel may not report what the host
 * does in a shared directory.
 */
export const watchSocketFile = (
  server: Server,
  path: string,
  { onFault, socketLookMs = SOCKET_LOOK_MS }: SocketFileOptions,
): SocketFileWatch => {
  let own = inodeOf(path)
  let isFaulty = false
  let isEnded = false
  const look = async (): Promise<void> => {
    if (own !== undefined && inodeOf(path) === own) return
    // Closing only ends the listening. It also unlinks the path, so it comes before the new socket.
    if (server.listening) server.close()
    await listen(server, { path })
    // A close that came meanwhile found a server that did not listen.
    if (isEnded) server.close()
    own = inodeOf(path)
    isFaulty = false
  }
  const lookSafely = async (): Promise<void> => {
    try {
      await look()
    } catch (cause) {
      if (!isFaulty && cause instanceof BerthError) onFault(cause)
      isFaulty = true
    }
    if (!isEnded) timer = setTimeout(() => void lookSafely(), socketLookMs).unref()
  }
  let timer = setTimeout(() => void lookSafely(), socketLookMs).unref()
  return {
    end: () => {
      isEnded = true
      clearTimeout(timer)
    },
  }
}

const inodeOf = (path: string): number | undefined =>
  lstatSync(path, { throwIfNoEntry: false })?.ino
