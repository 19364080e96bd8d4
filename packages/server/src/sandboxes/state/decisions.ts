import type { SandboxId } from "@berth/protocol/ids"
import type { DecisionView } from "@berth/protocol/sandboxes"
import type { Kysely } from "kysely"
import type { Database } from "../../store/database.ts"
import type { Clock } from "./clock.ts"

/** The decisions kept for one sandbox; older ones are deleted. */
const MAX_DECISIONS = 50
/** Old decisions are deleted with the first one that a server writes for a sandbox, and with every tenth after it. */
const FORGET_EVERY = 10

/** Why each sandbox was kept or stopped. The same decision in a row, as at each attempt, is written once. */
export interface Decisions {
  add(sandbox: SandboxId, action: string, reason: string): Promise<void>
  /** Notes that executing the last decision failed. */
  addFailure(sandbox: SandboxId, action: string, why: string): Promise<void>
  /** The last action that failed, and why; undefined: the last decision has not failed. */
  failureOf(sandbox: SandboxId): string | undefined
  /** Forgets a sandbox that is gone: nothing more is said of it. */
  end(sandbox: SandboxId): void
  /** The decisions about a sandbox, latest first. */
  of(sandbox: SandboxId): Promise<DecisionView[]>
}

export const openDecisions = (db: Kysely<Database>, clock: Clock): Decisions => {
  const last = new Map<SandboxId, { readonly decided: string; readonly failed?: string }>()
  const written = new Map<SandboxId, number>()

  const write = async (sandbox: SandboxId, action: string, reason: string): Promise<void> => {
    await db
      .insertInto("decisions")
      .values({ sandbox, at_ms: clock.now(), action, reason })
      .execute()
    const before = written.get(sandbox) ?? 0
    written.set(sandbox, before + 1)
    if (before % FORGET_EVERY === 0) await forgetOld(sandbox)
  }

  const forgetOld = async (sandbox: SandboxId): Promise<void> => {
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
  }

  return {
    add: async (sandbox, action, reason) => {
      const decided = `${action}: ${reason}`
      if (last.get(sandbox)?.decided === decided) return
      last.set(sandbox, { decided })
      await write(sandbox, action, reason)
    },
    addFailure: async (sandbox, action, why) => {
      const failed = `${action}: ${why}`
      const before = last.get(sandbox)
      if (before?.failed === failed) return
      if (before !== undefined) last.set(sandbox, { decided: before.decided, failed })
      await write(sandbox, `${action} failed`, why)
    },
    end: (sandbox) => {
      last.delete(sandbox)
      written.delete(sandbox)
    },
    failureOf: (sandbox) => last.get(sandbox)?.failed,
    of: async (sandbox) => {
      const rows = await db
        .selectFrom("decisions")
        .select(["at_ms", "action", "reason"])
        .where("sandbox", "=", sandbox)
        .orderBy("number", "desc")
        .limit(MAX_DECISIONS)
        .execute()
      return rows.map(({ at_ms, action, reason }) => ({
        at: new Date(at_ms).toISOString(),
        action,
        reason,
      }))
    },
  }
}
