import type { ObservedSandbox } from "@berth/backends/backend"
import type { Logger } from "../../logging/logger.ts"
import type { Rows } from "../state/rows.ts"
import type { SharedDirectories } from "../state/shared-directories.ts"
import type { Transients } from "../state/transients.ts"
import type { Connections } from "./connections.ts"

export interface ReconnectParts {
  /** The engine's sandboxes: one read serves everything at the start. */
  readonly found: readonly ObservedSandbox[]
  readonly rows: Pick<Rows, "list" | "listShown">
  readonly sharedDirectories: Pick<SharedDirectories, "list" | "remove">
  readonly connections: Pick<Connections, "reconnect">
  readonly transients: Transients
  readonly log: Logger
}

/**
 * Connects again to the sandboxes that the store knows; one that fails is left to its worker. Returns how many there
 * are.
 */
export const reconnectAll = async ({
  found: all,
  rows,
  connections,
  transients,
  log,
}: ReconnectParts): Promise<number> => {
  const live = new Set(
    (await rows.list())
      .filter(({ phase }) => phase !== "quarantined" && phase !== "stopping")
      .map(({ id }) => id),
  )
  const found = all.filter(({ identity }) => live.has(identity.sandbox))
  const taken = await Promise.allSettled(
    found.map(async ({ identity: { sandbox }, state }) => {
      if (state === "paused") transients.change(sandbox, { isFrozen: true })
      const one = await connections.reconnect(sandbox)
      if (state === "exited") one?.exited()
    }),
  )
  for (const each of taken)
    if (each.status === "rejected")
      log.warn(
        { op: "sandboxes.adopt", err: each.reason },
        "connecting to a running sandbox failed",
      )
  return found.length
}

/** Removes the shared directories of sandboxes that neither the store nor the engine has. Returns how many there were. */
export const removeOldSharedDirectories = async ({
  found,
  rows,
  sharedDirectories,
}: ReconnectParts): Promise<number> => {
  const here = new Set([
    ...(await rows.listShown()).map(({ id }) => id),
    ...found.map(({ identity }) => identity.sandbox),
  ])
  const old = (await sharedDirectories.list()).filter((sandbox) => !here.has(sandbox))
  for (const sandbox of old) await sharedDirectories.remove(sandbox)
  return old.length
}
