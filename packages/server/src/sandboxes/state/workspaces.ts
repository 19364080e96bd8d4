import type { Kysely } from "kysely"
import type { Database } from "../../store/database.ts"
import type { Clock } from "./clock.ts"
import { type FoundWorkspaces, findWorkspaces } from "./found-workspaces.ts"
import { type SavedWorkspaces, saveWorkspaces } from "./saved-workspaces.ts"
import { openWorkspaceBoots, type WorkspaceBoots } from "./workspace-boots.ts"

/** The store's workspaces. */
export interface Workspaces extends FoundWorkspaces, SavedWorkspaces, WorkspaceBoots {}

export const openWorkspaces = (db: Kysely<Database>, clock: Clock): Workspaces => ({
  ...findWorkspaces(db),
  ...saveWorkspaces(db, clock),
  ...openWorkspaceBoots(db),
})
