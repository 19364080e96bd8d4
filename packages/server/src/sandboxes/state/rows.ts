import type { BootMode } from "@berth/protocol/boot"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { ConfigHash } from "@berth/protocol/sandbox"
import { type Kysely, type Selectable, sql } from "kysely"
import { z } from "zod"
import type { Database, SandboxesTable, StopCause, StoredPhase } from "../../store/database.ts"
import type { Clock } from "./clock.ts"

export interface SandboxRow {
  readonly id: SandboxId
  readonly workspace: Slug
  readonly configHash: ConfigHash
  readonly phase: StoredPhase
  readonly phaseAtMs: number
  readonly mode: BootMode
  readonly createdAtMs: number
  /** Present once the sandbox is stopping. */
  readonly stop: Stop | undefined
  /** The things that the sandbox was made without, in words. */
  readonly warnings: readonly string[]
  /** The sandbox belongs to no workspace, though one may have that name: its own was removed, or it is quarantined. */
  readonly isDetached: boolean
}

export interface Stop {
  readonly cause: StopCause
  readonly reason: string
}

export type NewSandbox = Pick<SandboxRow, "id" | "workspace" | "configHash" | "mode"> & {
  readonly phase: Extract<StoredPhase, "creating" | "ready" | "draining" | "failed" | "quarantined">
}

/** The phases in which a sandbox gets new uses. */
export const CURRENT_PHASES = ["creating", "booting", "ready"] as const

export const isCurrentPhase = (phase: StoredPhase): boolean =>
  CURRENT_PHASES.some((current) => current === phase)

/** The phases in which a sandbox can be used: one that is `failed` has ended its boot, and stays up to be looked at. */
export const USABLE_PHASES = [...CURRENT_PHASES, "draining", "failed"] as const

/** The store's rows of sandboxes. Each change is one statement, so that nothing comes between. */
export interface Rows {
  /** Returns false if its workspace has a current sandbox already. */
  insert(sandbox: NewSandbox): Promise<boolean>
  get(sandbox: SandboxId): Promise<SandboxRow | undefined>
  /** Every sandbox but those that are gone. */
  list(): Promise<SandboxRow[]>
  /** Every sandbox but those that are gone, and the last one of each workspace that has no other. */
  listShown(): Promise<SandboxRow[]>
  /** The workspace's sandboxes but those that are gone or quarantined; oldest first. */
  ofWorkspace(workspace: Slug): Promise<SandboxRow[]>
  goneOf(workspace: Slug): Promise<SandboxId[]>
  /**
   * The sandbox that an id leads to: itself while it is there, and otherwise the current one of its workspace, or the
   * last one if that has none. A detached sandbox leads to itself.
   */
  current(sandbox: SandboxId): Promise<SandboxRow | undefined>
  /** Gives a quarantined sandbox back to its workspace. */
  attach(sandbox: SandboxId): Promise<void>
  /** Finds sandboxes by their workspace, or by the beginning of their id. */
  named(name: string): Promise<SandboxRow[]>
  /** Returns false if the sandbox is in none of the phases `from`. Never leads backwards from stopping. */
  move(sandbox: SandboxId, from: readonly StoredPhase[], to: StoredPhase): Promise<boolean>
  warn(sandbox: SandboxId, warnings: readonly string[]): Promise<void>
  /**
   * Begins a stop that Berth itself decided. Returns false if somebody uses or keeps the sandbox, or it is stopping
   * already.
   */
  beginStop(sandbox: SandboxId, stop: Stop): Promise<boolean>
  /**
   * Begins a stop that somebody asked for. Returns false if somebody uses the sandbox, or it is stopping already.
   * Leases that yield end with it, and so do those of the given subjects.
   */
  beginStopUnlessUsed(
    sandbox: SandboxId,
    stop: Stop,
    subjects?: readonly string[],
  ): Promise<boolean>
  /**
   * Begins the stop of a sandbox that is dead, or that a person wants gone though it is used: its leases end with it.
   */
  beginStopRegardless(sandbox: SandboxId, stop: Stop): Promise<boolean>
  /** Brings back a sandbox that was presumed dead. Returns false if it was not presumed dead. */
  revive(sandbox: SandboxId, phase: "ready" | "draining" | "failed"): Promise<boolean>
  /** Deletes the rows of sandboxes that have been gone for so long and are not shown. */
  forgetGone(olderThanMs: number): Promise<void>
}

/** Condition on `sandboxes AS shown`: those that are not gone, and the last one of each workspace that has no other. */
const IS_SHOWN = sql`
  phase <> 'gone'
  OR detached = 0
    AND EXISTS (SELECT 1 FROM workspaces WHERE slug = shown.workspace)
    AND NOT EXISTS (
      SELECT 1 FROM sandboxes AS other
      WHERE other.workspace = shown.workspace AND other.id <> shown.id
        AND (other.phase NOT IN ('gone', 'quarantined')
          OR other.phase = 'gone' AND (other.phase_at_ms, other.id) > (shown.phase_at_ms, shown.id))
    )`

const STOPPABLE = [...USABLE_PHASES, "quarantined"] as const

export const openRows = (db: Kysely<Database>, clock: Clock): Rows => {
  /** Moves a sandbox to `stopping`. `unless`: the leases that prevent it. */
  const toStopping = async (
    on: Kysely<Database>,
    sandbox: SandboxId,
    { cause, reason }: Stop,
    unless: "leased" | "used" | "nothing",
    subjects: readonly string[] = [],
  ): Promise<boolean> => {
    const update = on
      .updateTable("sandboxes")
      .set({
        phase: "stopping",
        phase_at_ms: clock.now(),
        stop_cause: cause,
        stop_reason: reason,
      })
      .where("id", "=", sandbox)
      .where("phase", "in", STOPPABLE)
    const bounded = update.where(({ not, exists, selectFrom }) => {
      const own = selectFrom("leases").select("id").where("leases.sandbox", "=", sandbox)
      const uses = own
        .where("leases.yields", "=", 0)
        .where(({ eb, or }) => or([eb("subject", "is", null), eb("subject", "not in", subjects)]))
        // While a sandbox is not reached, its lease for a prompt that the store has as ended does not count, and nor
        // does that of a prompt which was stopped without the sandbox's word.
        .where(({ not, exists, selectFrom }) =>
          not(
            exists(
              selectFrom("prompts")
                .select("prompts.id")
                .whereRef("prompts.id", "=", "leases.subject")
                .where("prompts.ended_at_ms", "is not", null)
                .where(({ eb, or }) =>
                  or([eb("leases.source", "=", "sandbox"), eb("prompts.stop_overdue", "=", 1)]),
                ),
            ),
          ),
        )
      return not(exists(unless === "used" ? uses : own))
    })
    const { numUpdatedRows } = await (unless === "nothing" ? update : bounded).executeTakeFirst()
    return numUpdatedRows === 1n
  }
  const toStoppingWithLeases = (
    sandbox: SandboxId,
    stop: Stop,
    unless: "used" | "nothing",
    subjects?: readonly string[],
  ) =>
    db.transaction().execute(async (trx) => {
      if (!(await toStopping(trx, sandbox, stop, unless, subjects))) return false
      await trx.deleteFrom("leases").where("sandbox", "=", sandbox).execute()
      return true
    })
  return {
    insert: async ({ id, workspace, configHash, mode, phase }) => {
      const now = clock.now()
      const { numInsertedOrUpdatedRows } = await db
        .insertInto("sandboxes")
        .values({
          id,
          workspace,
          mode,
          phase,
          config_hash: configHash,
          created_at_ms: now,
          phase_at_ms: now,
          stop_cause: null,
          stop_reason: null,
          detached: phase === "quarantined" ? 1 : 0,
        })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      return numInsertedOrUpdatedRows === 1n
    },
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
    attach: async (sandbox) => {
      await db.updateTable("sandboxes").set({ detached: 0 }).where("id", "=", sandbox).execute()
    },
    named: async (name) => {
      const { rows } = await sql<Selectable<SandboxesTable>>`
        SELECT * FROM sandboxes
        WHERE workspace = ${name} AND (detached = 0 OR phase = 'quarantined')
          OR ${name} LIKE 'sb-_%' AND substr(id, 1, ${name.length}) = ${name}`.execute(db)
      return rows.map(rowOf)
    },
    move: async (sandbox, from, to) => {
      const { numUpdatedRows } = await db
        .updateTable("sandboxes")
        .set({ phase: to, phase_at_ms: clock.now() })
        .where("id", "=", sandbox)
        .where("phase", "in", from)
        .executeTakeFirst()
      return numUpdatedRows === 1n
    },
    warn: async (sandbox, warnings) => {
      await db
        .updateTable("sandboxes")
        .set({ warnings: JSON.stringify(warnings) })
        .where("id", "=", sandbox)
        .execute()
    },
    beginStop: (sandbox, stop) => toStopping(db, sandbox, stop, "leased"),
    beginStopUnlessUsed: (sandbox, stop, subjects) =>
      toStoppingWithLeases(sandbox, stop, "used", subjects),
    beginStopRegardless: (sandbox, stop) => toStoppingWithLeases(sandbox, stop, "nothing"),
    revive: async (sandbox, phase) => {
      const { numUpdatedRows } = await db
        .updateTable("sandboxes")
        .set({ phase, phase_at_ms: clock.now(), stop_cause: null, stop_reason: null })
        .where("id", "=", sandbox)
        .where("phase", "in", ["stopping", "gone"])
        .where("stop_cause", "=", "ended")
        .executeTakeFirst()
      return numUpdatedRows === 1n
    },
    forgetGone: async (olderThanMs) => {
      const before = clock.now() - olderThanMs
      const old = sql`
        SELECT id FROM sandboxes AS shown
        WHERE phase = 'gone' AND phase_at_ms < ${before} AND NOT (${IS_SHOWN})`
      await db.transaction().execute(async (trx) => {
        await sql`DELETE FROM decisions WHERE sandbox IN (${old})`.execute(trx)
        await sql`DELETE FROM sandboxes WHERE id IN (${old})`.execute(trx)
      })
    },
  }
}

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
