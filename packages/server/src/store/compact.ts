import { setImmediate as soon } from "node:timers/promises"
import type Database from "better-sqlite3"

/** The pages that are freed at a time: 1 MiB, some milliseconds. */
const STEP_PAGES = 256

/** The free pages that are kept for later writes: 16 MiB. */
const SPARE_PAGES = 4096

/**
 * Gives the space of removed rows back to the disk. Others have their turn after each step; `alone` runs a step between
 * two transactions. A database that was made without this keeps its size, and reuses the space.
 */
export const compact = async (
  database: Database.Database,
  alone: (step: () => Promise<void>) => Promise<void>,
): Promise<void> => {
  const isIncremental = () =>
    database.open && database.pragma("auto_vacuum", { simple: true }) === 2
  const spare = () => Number(database.pragma("freelist_count", { simple: true }))
  while (isIncremental() && spare() > SPARE_PAGES + STEP_PAGES) {
    const before = spare()
    // A prepared statement would free one page: the pragma has to be stepped to its end.
    await alone(async () => void database.exec(`PRAGMA incremental_vacuum(${STEP_PAGES})`))
    if (spare() >= before) return
    await soon()
  }
}
