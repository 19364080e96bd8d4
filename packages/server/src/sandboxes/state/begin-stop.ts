import type { SandboxId } from "@berth/protocol/ids"
import type { ExpressionBuilder, Kysely } from "kysely"
import type { Database } from "../../store/database.ts"
import type { Clock } from "./clock.ts"
import { USABLE_PHASES } from "./phases.ts"
import type { Stop } from "./sandbox-row.ts"

/** The beginnings of stops. Each is refused by the statement that makes it, so that no lease comes between. */
export interface BeginStop {
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
}

const STOPPABLE = [...USABLE_PHASES, "quarantined"] as const

interface StopCall {
  readonly sandbox: SandboxId
  readonly stop: Stop
  /** The leases that prevent the stop. */
  readonly unless: "leased" | "used" | "nothing"
  /** The subjects whose leases do not prevent the stop. */
  readonly subjects?: readonly string[] | undefined
}

export const openBeginStop = (db: Kysely<Database>, clock: Clock): BeginStop => {
  const withLeases = (call: StopCall) =>
    db.transaction().execute(async (trx) => {
      if (!(await toStopping(trx, clock, call))) return false
      await trx.deleteFrom("leases").where("sandbox", "=", call.sandbox).execute()
      return true
    })
  return {
    beginStop: (sandbox, stop) => toStopping(db, clock, { sandbox, stop, unless: "leased" }),
    beginStopUnlessUsed: (sandbox, stop, subjects) =>
      withLeases({ sandbox, stop, unless: "used", subjects }),
    beginStopRegardless: (sandbox, stop) => withLeases({ sandbox, stop, unless: "nothing" }),
  }
}

/** Moves a sandbox to `stopping`. Returns false if leases prevent that, or it is stopping already. */
const toStopping = async (
  db: Kysely<Database>,
  clock: Clock,
  { sandbox, stop, unless, subjects = [] }: StopCall,
): Promise<boolean> => {
  const update = db
    .updateTable("sandboxes")
    .set({
      phase: "stopping",
      phase_at_ms: clock.now(),
      stop_cause: stop.cause,
      stop_reason: stop.reason,
    })
    .where("id", "=", sandbox)
    .where("phase", "in", STOPPABLE)
  const bounded = update.where((builder) => {
    const leases =
      unless === "used" ? usesOf(builder, sandbox, subjects) : leasesOf(builder, sandbox)
    return builder.not(builder.exists(leases))
  })
  const { numUpdatedRows } = await (unless === "nothing" ? update : bounded).executeTakeFirst()
  return numUpdatedRows === 1n
}

type Builder = ExpressionBuilder<Database, "sandboxes">

const leasesOf = ({ selectFrom }: Builder, sandbox: SandboxId) =>
  selectFrom("leases").select("id").where("leases.sandbox", "=", sandbox)

/** The leases by which a sandbox is in use, without those of the given subjects. */
const usesOf = (builder: Builder, sandbox: SandboxId, subjects: readonly string[]) =>
  leasesOf(builder, sandbox)
    .where("leases.yields", "=", 0)
    .where(({ eb, or }) => or([eb("subject", "is", null), eb("subject", "not in", subjects)]))
    // While a sandbox is not reached, its lease for a prompt that the store has as ended does not count. Nor does the
    // lease of a prompt that was stopped without the sandbox's word.
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
