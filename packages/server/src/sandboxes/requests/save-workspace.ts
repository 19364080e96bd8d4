import { isDeepStrictEqual } from "node:util"
import type { Serially } from "@berth/host/serial"
import type { Slug } from "@berth/protocol/ids"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Guard } from "../disk/guard.ts"
import { filesLeft } from "../files/files-left.ts"
import type { FilesRoom } from "../files/open.ts"
import type { DesiredConfigs } from "../making/desired-configs.ts"
import { requireHeld } from "../making/require-held.ts"
import type { openRequireModel } from "../making/require-model.ts"
import type { openValidate } from "../making/validate.ts"
import { otherRepo, otherRepoError } from "../state/other-repo.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Requests } from "./requests.ts"

export interface SaveWorkspaceParts extends Pick<FilesRoom, "files" | "filesLeft"> {
  readonly workspaces: Workspaces
  readonly desiredConfigs: Pick<DesiredConfigs, "refresh">
  readonly validate: ReturnType<typeof openValidate>
  readonly requireModel: ReturnType<typeof openRequireModel>
  /** Runs one operation at a time for each workspace. */
  readonly serially: Serially
  readonly replaceWorkspace: Requests["replaceWorkspace"]
  readonly guard: Pick<Guard, "isHolding" | "look">
}

export interface SaveOptions {
  /**
   * Removes the workspace of that name first if it is for another repo, and files of that name that no workspace owns.
   * Default: refused.
   */
  readonly replace?: boolean
  /** Whether a prompt follows: a new workspace whose agent lacks a model is refused. */
  readonly isPrompted?: boolean
}

/** Saves a workspace as it is described. If it is refused, nothing is changed. */
export type SaveWorkspace = (
  spec: WorkspaceSpec,
  options: SaveOptions,
  signal: AbortSignal,
) => Promise<void>

export const openSaveWorkspace = (parts: SaveWorkspaceParts): SaveWorkspace => {
  const { workspaces, desiredConfigs, files, validate, requireModel, serially, guard } = parts
  const { areLeft } = parts.filesLeft
  const removeLeft = (workspace: Slug): Promise<void> =>
    serially(workspace, async () => {
      // A concurrent request may have made the workspace since.
      if (await areLeft(workspace)) await files.remove(workspace)
    })
  return async (spec, { replace = false, isPrompted = false }, signal) => {
    const known = (await workspaces.get(spec.slug))?.spec
    if (isDeepStrictEqual(known, spec)) return desiredConfigs.refresh()
    const isOnLeftFiles = known === undefined && (await areLeft(spec.slug))
    if (isOnLeftFiles && !replace) throw filesLeft(spec.slug)
    const other = known && otherRepo(known, spec)
    if (other !== undefined && !replace) throw otherRepoError(spec, other)
    requireHeld(spec.agent)
    const before = other === undefined ? known : undefined
    await validate(spec, before, signal)
    // The files of a workspace that there is already may bring a model.
    if (isPrompted && before === undefined) await requireModel(spec, signal)
    if (isOnLeftFiles) await removeLeft(spec.slug)
    // A concurrent request may have saved the workspace since it was read.
    const refusal = await workspaces.put(spec)
    if (refusal !== undefined && !replace) throw otherRepoError(spec, refusal)
    if (refusal !== undefined) await parts.replaceWorkspace(spec)
    desiredConfigs.refresh()
    // A halted sandbox may have a higher limit now.
    if (guard.isHolding) await guard.look()
  }
}
