import type { WorkspaceSpec } from "@berth/protocol/workspace"
import { isCurrentPhase } from "../state/phases.ts"
import type { Rows } from "../state/rows.ts"
import type { Idle } from "../use/idle.ts"
import type { Ensure, Ensured, EnsureOptions } from "./ensure.ts"
import type { SaveOptions, SaveWorkspace } from "./save-workspace.ts"

export interface UpParts {
  readonly rows: Pick<Rows, "get" | "ofWorkspace">
  readonly idle: Pick<Idle, "begin">
  readonly ensure: Ensure
  readonly save: SaveWorkspace
  /** Rejects where the host has no room for another sandbox. */
  readonly admit: () => Promise<void>
}

export type UpOptions = Omit<EnsureOptions, "isRequested"> & SaveOptions

/** Gives the current sandbox of a workspace, as it is described here. Resolves when it has started; it boots on. */
export const openUp =
  ({ rows, idle, ensure, save, admit }: UpParts) =>
  async (
    workspace: WorkspaceSpec,
    { replace = false, ...options }: UpOptions,
    signal: AbortSignal,
  ): Promise<Ensured> => {
    // A sandbox that there is no room for is refused before anything is changed for it.
    if ((await rows.ofWorkspace(workspace.slug)).length === 0) await admit()
    await save(workspace, { replace }, signal)
    for (;;) {
      const ensured = await ensure(workspace.slug, { ...options, isRequested: true }, signal)
      // The idle time begins anew, so that the sandbox is not stopped before its caller uses it.
      idle.begin(ensured.sandbox)
      const row = await rows.get(ensured.sandbox)
      if (ensured.made || (row !== undefined && isCurrentPhase(row.phase))) return ensured
    }
  }
