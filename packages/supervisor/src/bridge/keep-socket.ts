import { lstatSync } from "node:fs"
import type { Server } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import { listen } from "./listen.ts"

export interface KeptSocket {
  /** Ends the watch. The server keeps listening. */
  release(): void
}

export interface KeepSocketOptions {
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
export const keepSocket = (
  server: Server,
  path: string,
  { onFault, socketLookMs = SOCKET_LOOK_MS }: KeepSocketOptions,
): KeptSocket => {
  let own = inodeOf(path)
  let isFaulty = false
  let isReleased = false
  const look = async (): Promise<void> => {
    if (own !== undefined && inodeOf(path) === own) return
    // Closing only ends the listening. It also unlinks the path, so it comes before the new socket.
    if (server.listening) server.close()
    await listen(server, { path })
    // A close that came meanwhile found a server that did not listen.
    if (isReleased) server.close()
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
    if (!isReleased) timer = setTimeout(() => void lookSafely(), socketLookMs).unref()
  }
  let timer = setTimeout(() => void lookSafely(), socketLookMs).unref()
  return {
    release: () => {
      isReleased = true
      clearTimeout(timer)
    },
  }
}

const inodeOf = (path: string): number | undefined =>
  lstatSync(path, { throwIfNoEntry: false })?.ino
