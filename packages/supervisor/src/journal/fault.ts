import { BerthError } from "@berth/protocol/errors"

/** System errors that pass when there is space again. */
const FULL = new Set(["ENOSPC", "EDQUOT"])

/** Turns an error of the file system into a BerthError. */
export const toJournalError = (thrown: unknown, path: string): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const systemSaid = thrown instanceof Error ? thrown.message : String(thrown)
  const details = { path, systemSaid }
  return isFull(thrown)
    ? new BerthError("journal.disk_full", `no space left to write ${path}`, {
        details,
        cause: thrown,
      })
    : new BerthError("journal.io", `the file system failed on ${path}`, { details, cause: thrown })
}

const isFull = (thrown: unknown): boolean =>
  thrown instanceof Error && "code" in thrown && FULL.has(String(thrown.code))
