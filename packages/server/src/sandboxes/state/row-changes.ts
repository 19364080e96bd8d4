import type { SandboxId } from "@berth/protocol/ids"
import { type Kysely, sql } from "kysely"
import type { Database, StoredPhase } from "../../store/database.ts"
import type { Clock } from "./clock.ts"
import { IS_SHOWN } from "./found-rows.ts"
import type { NewSandbox } from "./sandbox-row.ts"

/** The changes of rows, except those that begin a stop. Each is one statement, so that nothing comes between. */
export interface RowChanges {
  /** Returns false if its workspace has a current sandbox already. */
  insert(sandbox: NewSandbox): Promise<boolean>
  /** Gives a quarantined sandbox back to its workspace. */
  attach(sandbox: SandboxId): Promise<void>
  /** Returns false if the sandbox is in none of the phases `from`. Never leads backwards from stopping. */
  move(sandbox: SandboxId, from: readonly StoredPhase[], to: StoredPhase): Promise<boolean>
  warn(sandbox: SandboxId, warnings: readonly string[]): Promise<void>
  /** Brings back a sandbox that was presumed dead. Returns false if it was not presumed dead. */
  revive(sandbox: SandboxId, phase: "ready" | "draining" | "failed"): Promise<boolean>
  /** Deletes the rows of sandboxes that have been gone for so long and are not shown. */
  forgetGone(olderThanMs: number): Promise<void>
}

export const changeRows = (db: Kysely<Database>, clock: Clock): RowChanges => ({
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
  attach: async (sandbox) => {
    await db.updateTable("sandboxes").set({ detached: 0 }).where("id", "=", sandbox).execute()
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
})
