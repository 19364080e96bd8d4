import type { Backend } from "@berth/backends/backend"
import type { Serially } from "@berth/host/serial"
import type { Layers } from "@berth/layers/layers"
import type { Slug } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Clock } from "../state/clock.ts"
import type { Rows } from "../state/rows.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { WorkspaceFiles } from "./files.ts"

export interface LeftFilesParts {
  readonly layers: Pick<Layers, "findOwnerless" | "noteOwnerless" | "noteOwned">
  readonly backend: Pick<Backend, "list">
  readonly rows: Pick<Rows, "list">
  readonly workspaces: Pick<Workspaces, "slugs">
  readonly files: Pick<WorkspaceFiles, "remove">
  readonly serially: Serially
  readonly clock: Clock
  readonly log: Logger
  /** How long files of no known workspace are kept. */
  readonly keepMs: number
}

/**
 * Removes files that no workspace owns. The row of a workspace is on disk before its files are, so such files belong to
 * a database that was lost or restored from a copy, and a person may want them: they are kept for as long as a sandbox
 * that the store does not know.
 */
export const openLeftFiles = (parts: LeftFilesParts) => {
  const { layers, backend, rows, workspaces, files, serially, clock, log, keepMs } = parts

  /** The known workspaces, also those that are being made. */
  const known = async (): Promise<ReadonlySet<Slug>> => {
    const [slugs, sandboxes] = await Promise.all([workspaces.slugs(), rows.list()])
    return new Set([...slugs, ...sandboxes.map(({ workspace }) => workspace)])
  }

  /** Warns once that the files are left, and removes them when they have been kept for long enough. */
  const sweepOne = async (workspace: Slug, isNoted: boolean): Promise<void> => {
    // The workspace may have been made since, and the store may not know a sandbox of it yet.
    if ((await known()).has(workspace)) return
    if ((await backend.list()).some(({ identity }) => identity.workspace === workspace)) return
    const sinceMs = await layers.noteOwnerless(workspace)
    if (clock.now() - sinceMs < keepMs) {
      const until = new Date(sinceMs + keepMs).toISOString()
      if (!isNoted) log.warn({ op: "files.sweep", workspace, until }, LEFT)
      return
    }
    await files.remove(workspace)
    await layers.noteOwned(workspace)
    log.warn({ op: "files.sweep", workspace }, "removed files that no workspace owned")
  }

  /** Looks at all files once. */
  return async (): Promise<void> => {
    const { stacked, noted } = await layers.findOwnerless()
    const owned = await known()
    for (const workspace of noted)
      if (owned.has(workspace) || !stacked.includes(workspace)) await layers.noteOwned(workspace)
    for (const workspace of stacked)
      if (!owned.has(workspace)) {
        const isNoted = noted.includes(workspace)
        await serially(workspace, () => sweepOne(workspace, isNoted))
      }
  }
}

const LEFT =
  "files belong to no workspace that the database knows, and are removed at the time that `until` says: `berth layers export` saves them, and so does the database that knew them"
