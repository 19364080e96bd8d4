import type { Backend } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { Slug } from "@berth/protocol/ids"
import type { Rows } from "../state/rows.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { WorkspaceFiles } from "./files.ts"

export interface FilesLeftParts {
  readonly files: Pick<WorkspaceFiles, "has">
  readonly backend: Pick<Backend, "list">
  readonly rows: Pick<Rows, "list" | "ofWorkspace">
  readonly workspaces: Pick<Workspaces, "slugs">
}

/**
 * Looks for files that an earlier workspace of the same name left: the database that knew it was lost, or restored from
 * a copy. A new workspace never takes them, since they were not made for it.
 */
export type FilesLeft = ReturnType<typeof openFilesLeft>

export const openFilesLeft = ({ files, backend, rows, workspaces }: FilesLeftParts) => ({
  /** Whether nobody owns the files of that name: no workspace, and no sandbox that is used. */
  areLeft: async (workspace: Slug): Promise<boolean> => {
    if (!(await files.has(workspace))) return false
    // A workspace's row is on disk before its files are, so the row is looked for after the files.
    if ((await workspaces.slugs()).includes(workspace)) return false
    return (await rows.ofWorkspace(workspace)).length === 0
  },
  /** Refuses a name that has files or a sandbox of any owner. */
  assertUnused: async (workspace: Slug): Promise<void> => {
    const [hasFiles, known, there] = await Promise.all([
      files.has(workspace),
      rows.list(),
      backend.list(),
    ])
    const owners = [...known, ...there.map(({ identity }) => identity)]
    if (hasFiles || owners.some((owner) => owner.workspace === workspace))
      throw filesLeft(workspace)
  },
})

export const filesLeft = (workspace: Slug): BerthError =>
  new BerthError(
    "workspace.files_left",
    `there are files of the name ${workspace} which belong to no workspace that the database knows`,
    { details: { workspace } },
  )
