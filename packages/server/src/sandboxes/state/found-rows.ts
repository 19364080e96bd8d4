import type { SandboxId, Slug } from "@berth/protocol/ids"
import { type Kysely, type Selectable, sql } from "kysely"
import { z } from "zod"
import type { Database, SandboxesTable } from "../../store/database.ts"
import { USABLE_PHASES } from "./phases.ts"
import type { SandboxRow } from "./sandbox-row.ts"

/** The queries for rows of sandboxes. */
export interface FoundRows {
  get(sandbox: SandboxId): Promise<SandboxRow | undefined>
  /** Every sandbox that is not gone. */
  list(): Promise<SandboxRow[]>
  /** Every sandbox that is not gone, and the last one of each workspace that has no other. */
  listShown(): Promise<SandboxRow[]>
  /** The workspace's sandboxes that are neither gone nor quarantined; oldest first. */
  ofWorkspace(workspace: Slug): Promise<SandboxRow[]>
  goneOf(workspace: Slug): Promise<SandboxId[]>
  /**
   * The sandbox that an id leads to: itself while it is there, and otherwise the current one of its workspace, or the
   * last one if that has none. A detached sandbox leads to itself.
   */
  current(sandbox: SandboxId): Promise<SandboxRow | undefined>
  /** Finds sandboxes by their workspace, or by the beginning of their id. */
  named(name: string): Promise<SandboxRow[]>
}

/** Condition on `sandboxes AS shown`: they are not gone, or are the last one of a workspace that has no other. */
export const IS_SHOWN = sql`
  phase <> 'gone'
  OR detached = 0
    AND EXISTS (SELECT 1 FROM workspaces WHERE slug = shown.workspace)
    AND NOT EXISTS (
      SELECT 1 FROM sandboxes AS other
      WHERE other.workspace = shown.workspace AND other.id <> shown.id
        AND (other.phase NOT IN ('gone', 'quarantined')
          OR other.phase = 'gone' AND (other.phase_at_ms, other.id) > (shown.phase_at_ms, shown.id))
    )`

export const findRows = (db: Kysely<Database>): FoundRows => ({
  get: async (sandbox) => {
    const row = await db
      .selectFrom("sandboxes")
      .selectAll()
      .where("id", "=", sandbox)
      .executeTakeFirst()
    return row && rowOf(row)
  },
  list: async () => {
    const rows = await db
      .selectFrom("sandboxes")
      .selectAll()
      .where("phase", "!=", "gone")
      .orderBy("created_at_ms")
      .execute()
    return rows.map(rowOf)
  },
  listShown: async () => {
    const { rows } = await sql<Selectable<SandboxesTable>>`
      SELECT * FROM sandboxes AS shown WHERE ${IS_SHOWN} ORDER BY created_at_ms`.execute(db)
    return rows.map(rowOf)
  },
  ofWorkspace: async (workspace) => {
    const rows = await db
      .selectFrom("sandboxes")
      .selectAll()
      .where("workspace", "=", workspace)
      .where("phase", "not in", ["gone", "quarantined"])
      .orderBy("created_at_ms")
      .execute()
    return rows.map(rowOf)
  },
  goneOf: async (workspace) => {
    const rows = await db
      .selectFrom("sandboxes")
      .select("id")
      .where("workspace", "=", workspace)
      .where("phase", "=", "gone")
      .execute()
    return rows.map(({ id }) => id)
  },
  current: async (sandbox) => {
    const { rows } = await sql<Selectable<SandboxesTable>>`
      SELECT other.* FROM sandboxes AS own JOIN sandboxes AS other
        ON other.id = own.id
        OR other.workspace = own.workspace AND other.phase <> 'quarantined'
          AND own.phase IN ('stopping', 'gone') AND own.detached = 0 AND other.detached = 0
      WHERE own.id = ${sandbox}
      ORDER BY other.phase IN (${sql.join(USABLE_PHASES)}) DESC, other.rowid DESC LIMIT 1`.execute(
      db,
    )
    return rows[0] && rowOf(rows[0])
  },
  named: async (name) => {
    const { rows } = await sql<Selectable<SandboxesTable>>`
      SELECT * FROM sandboxes
      WHERE workspace = ${name} AND (detached = 0 OR phase = 'quarantined')
        OR ${name} LIKE 'sb-_%' AND substr(id, 1, ${name.length}) = ${name}`.execute(db)
    return rows.map(rowOf)
  },
})

const Warnings = z.array(z.string())

const rowOf = (row: Selectable<SandboxesTable>): SandboxRow => ({
  id: row.id,
  workspace: row.workspace,
  configHash: row.config_hash,
  mode: row.mode,
  phase: row.phase,
  phaseAtMs: row.phase_at_ms,
  createdAtMs: row.created_at_ms,
  stop:
    row.stop_cause === null
      ? undefined
      : { cause: row.stop_cause, reason: row.stop_reason ?? "not said" },
  warnings: Warnings.parse(JSON.parse(row.warnings)),
  isDetached: row.detached === 1,
})
