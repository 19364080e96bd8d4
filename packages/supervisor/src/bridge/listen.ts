import { lstatSync, unlinkSync } from "node:fs"
import type { Server } from "node:net"
import { BerthError } from "@berth/protocol/errors"

export type ListenAddress =
  /** A unix socket, for its owner alone. One that an ended supervisor left there is replaced. */
  { readonly path: string } | { readonly host: string; readonly port: number }

/** Limit of connections that wait to be accepted. */
const BACKLOG = 1_024

/** A umask that leaves nothing to group and others. */
const OWNER_ONLY = 0o177

/** Resolves when the server listens there. */
export const listen = (server: Server, address: ListenAddress): Promise<void> =>
  new Promise((resolve, reject) => {
    const onError = (cause: Error) => reject(failed(address, cause))
    server.once("error", onError)
    server.once("listening", () => {
      server.off("error", onError)
      resolve()
    })
    try {
      if ("path" in address) listenOnPath(server, address.path)
      else server.listen({ host: address.host, port: address.port, backlog: BACKLOG })
    } catch (cause) {
      reject(failed(address, cause))
    }
  })

const listenOnPath = (server: Server, path: string): void => {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket()) unlinkSync(path)
  // The socket is made before listen() returns, so no other file gets this mode.
  const before = process.umask(OWNER_ONLY)
  try {
    server.listen({ path, backlog: BACKLOG })
  } finally {
    process.umask(before)
  }
}

const failed = (address: ListenAddress, cause: unknown): BerthError =>
  new BerthError("bridge.listen_failed", "the supervisor cannot listen", {
    details: { ...address, systemSaid: cause instanceof Error ? cause.message : String(cause) },
    cause,
  })
