import type { InstallationId, Slug } from "@berth/protocol/ids"

/**
 * The tables as the newest migration leaves them, for typed queries. A new table: its migration (see
 * migrations/list.ts), its interface below, its line here. Times are wall-clock milliseconds.
 */
export interface Database {
  installation: InstallationTable
  workspaces: WorkspacesTable
}

/** One row, made with the database. */
export interface InstallationTable {
  id: InstallationId
  created_at_ms: number
}

export interface WorkspacesTable {
  slug: Slug
  /** JSON text. */
  spec: string
  created_at_ms: number
  updated_at_ms: number
}
