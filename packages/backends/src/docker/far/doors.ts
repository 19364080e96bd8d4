import { once } from "node:events"
import { closeSync, constants, openSync, rmSync } from "node:fs"
import { connect, createServer, type Socket } from "node:net"
import { join } from "node:path"
import { pipeline } from "node:stream"
import { setTimeout as pause } from "node:timers/promises"
import type { SandboxId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"

/**
 * The sockets of sandboxes whose engine is elsewhere. Each socket lies where a sandbox on this host would have made its
 * own, and leads to the port that the sandbox serves on: a client notices no difference.
 */
export interface Doors {
  /** Opens a sandbox's socket when the sandbox answers, and not if it never does. Idempotent. */
  open(sandbox: SandboxId, door: Door): void
  close(sandbox: SandboxId): void
  closeAll(): void
  /**
   * Makes the next connection ask anew where its sandbox serves: another sandbox may have the port by now, and would be
   * told the token.
   */
  forget(): void
}

export interface Door {
  /** The directory on this host that the sandbox shares with the server. */
  readonly sharedDirectory: string
  /** The address at which the sandbox serves now; undefined if it does not run. */
  readonly address: () => Promise<PortAddress | undefined>
}

export interface PortAddress {
  readonly host: string
  readonly port: number
}

/** The pause between two attempts to reach a sandbox that has just started. */
const RETRY_MS = 50
const CONNECT_DEADLINE_MS = 5_000

export const openDoors = (): Doors => {
  const open = new Map<SandboxId, AbortController>()
  let epoch = 0
  const close = (sandbox: SandboxId) => {
    open.get(sandbox)?.abort()
    open.delete(sandbox)
  }
  return {
    open(sandbox, door) {
      if (open.has(sandbox)) return
      const closing = new AbortController()
      open.set(sandbox, closing)
      openOne(door, closing.signal, () => epoch).catch(() => close(sandbox))
    },
    close,
    closeAll: () => {
      for (const sandbox of [...open.keys()]) close(sandbox)
    },
    forget: () => {
      epoch += 1
    },
  }
}

/** Serves one sandbox's socket. `epoch` changes when a known address may no longer be right. */
const openOne = async (
  { sharedDirectory, address }: Door,
  signal: AbortSignal,
  epoch: () => number,
): Promise<void> => {
  let knownIn = epoch()
  let target = await answering(address, signal)
  const dial = async (): Promise<Socket> => {
    if (knownIn !== epoch()) {
      const now = epoch()
      target = await needed(address)
      knownIn = now
    }
    try {
      return await reach(target, signal)
    } catch {
      // After the engine was away, the sandbox may have another port.
      target = await needed(address)
      return await reach(target, signal)
    }
  }
  // Removes the socket of an earlier server. The directory is this host's own: nothing inside can reach it.
  rmSync(join(sharedDirectory, SHARED.socket), { force: true })
  // The socket is bound through the directory's descriptor, since the kernel takes no long paths for sockets.
  const directory = openSync(sharedDirectory, constants.O_RDONLY | constants.O_DIRECTORY)
  const inside = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (inner) => {
    inside.add(inner.once("close", () => inside.delete(inner)))
    inner.on("error", () => {})
    dial().then(
      (outer) => passBetween(inner, outer),
      () => inner.destroy(),
    )
  })
  server.once("close", () => closeSync(directory))
  const shut = () => {
    server.close()
    for (const inner of inside) inner.destroy()
  }
  server.listen(`/proc/self/fd/${directory}/${SHARED.socket}`)
  await once(server, "listening")
  signal.addEventListener("abort", shut, { once: true })
  if (signal.aborted) shut()
}

/** Passes bytes both ways. The end of either side ends the other, after all bytes before it. */
const passBetween = (inner: Socket, outer: Socket): void => {
  pipeline(inner, outer, () => {})
  pipeline(outer, inner, () => {})
}

/**
 * Resolves when the sandbox serves. Its published port accepts connections before that, and hangs up: so an answer is
 * awaited.
 */
const answering = async (address: Door["address"], signal: AbortSignal): Promise<PortAddress> => {
  for (;;) {
    const target = await needed(address)
    if (await answers(target, signal)) return target
    await pause(RETRY_MS, undefined, { signal })
  }
}

const needed = async (address: Door["address"]): Promise<PortAddress> => {
  const target = await address()
  if (target !== undefined) return target
  throw new Error("the sandbox does not run")
}

/** Any answer will do: without the token the sandbox refuses, and that shows that it serves. */
const answers = async (target: PortAddress, signal: AbortSignal): Promise<boolean> => {
  try {
    const socket = await reach(target, signal)
    socket.setTimeout(CONNECT_DEADLINE_MS, () => socket.destroy())
    socket.write("GET /health HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n\r\n")
    return await new Promise<boolean>((resolve) => {
      socket.once("data", () => resolve(true))
      for (const end of ["end", "close"]) socket.once(end, () => resolve(false))
    }).finally(() => socket.destroy())
  } catch {
    signal.throwIfAborted()
    return false
  }
}

const reach = ({ host, port }: PortAddress, signal: AbortSignal): Promise<Socket> =>
  new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true })
    const onAbort = () => socket.destroy()
    signal.addEventListener("abort", onAbort, { once: true })
    const late = setTimeout(() => socket.destroy(new Error("no connection")), CONNECT_DEADLINE_MS)
    socket.on("error", reject)
    socket.once("close", () => {
      clearTimeout(late)
      signal.removeEventListener("abort", onAbort)
      reject(new Error("the connection was closed"))
    })
    socket.once("connect", () => {
      clearTimeout(late)
      resolve(socket)
    })
  })
