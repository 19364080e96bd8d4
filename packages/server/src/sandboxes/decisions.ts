import type { SandboxId } from "@berth/protocol/ids"
import type { DecisionView } from "@berth/protocol/sandboxes"
import type { Kysely } from "kysely"
import type { Database } from "../store/database.ts"
import type { Clock } from "./clock.ts"

/** Of one sandbox; what is older is forgotten. */
const MAX_DECISIONS = 50

/** Why each sandbox was kept or stopped. One that says again what the last one said is not written again. */
export interface Decisions {
  add(sandbox: SandboxId, action: string, reason: string): Promise<void>
  /** Latest first. */
  of(sandbox: SandboxId): Promise<DecisionView[]>
}

export const openDecisions = (db: Kysely<Database>, clock: Clock): Decisions => {
  const last = new Map<SandboxId, string>()
  return {
    add: async (sandbox, action, reason) => {
      const said = `${action}: ${reason}`
      if (last.get(sandbox) === said) return
      if (action === "forget") last.delete(sandbox)
      else last.set(sandbox, said)
      await db
        .insertInto("decisions")
        .values({ sandbox, at_ms: clock.now(), action, reason })
        .execute()
      await db
        .deleteFrom("decisions")
        .where("sandbox", "=", sandbox)
        .where("number", "<=", ({ selectFrom }) =>
          selectFrom("decisions as kept")
            .select("kept.number")
            .where("kept.sandbox", "=", sandbox)
            .orderBy("kept.number", "desc")
            .limit(1)
            .offset(MAX_DECISIONS),
        )
        .execute()
    },
    of: async (sandbox) => {
      const rows = await db
        .selectFrom("decisions")
        .select(["at_ms", "action", "reason"])
        .where("sandbox", "=", sandbox)
        .orderBy("number", "desc")
        .limit(MAX_DECISIONS)
        .execute()
      return rows.map(({ at_ms, action, reason }) => ({
        ...{ at: new Date(at_ms).toISOString(), action, reason },
      }))
    },
  }
}
