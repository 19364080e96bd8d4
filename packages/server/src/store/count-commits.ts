import type Database from "better-sqlite3"
import type { CommitHooks } from "./dialect.ts"
import type { Commits, Witness } from "./witness.ts"

export interface CommitCounter extends CommitHooks {
  /** Starts to count, from the number in the database on. */
  begin(witness: Witness): void
  /** Called after a commit that was synced. */
  durable(): void
}

/**
 * Numbers the commits of transactions that write: each raises the epoch, in the transaction itself, and then the witness
 * notes it. The witness comes second, so that a crash in between never leaves it ahead of the database.
 */
export const countCommits = (database: Database.Database): CommitCounter => {
  let counting: { raise: () => number; changes: () => number; witness: Witness } | undefined
  let counted = 0
  let commits: Commits = { last: 0, durable: 0 }
  let next = 0

  return {
    begin(witness) {
      const raise = database.prepare("UPDATE installation SET epoch = epoch + 1 RETURNING epoch")
      const changes = database.prepare("SELECT total_changes()")
      counting = {
        raise: () => raise.pluck().get() as number,
        changes: () => changes.pluck().get() as number,
        witness,
      }
    },
    committing() {
      next = commits.last
      if (counting === undefined || counting.changes() === counted) return
      next = counting.raise()
      counted = counting.changes()
    },
    committed() {
      if (next === commits.last) return
      commits = { last: next, durable: commits.durable }
      counting?.witness.note(commits)
    },
    durable() {
      if (counting === undefined || commits.durable === commits.last) return
      commits = { last: commits.last, durable: commits.last }
      counting.witness.note(commits)
    },
  }
}
