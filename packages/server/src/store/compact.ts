import { setImmediate as soon } from "node:timers/promises"
import type Database from "better-sqlite3"

/** Given back at a time: 1 MiB, some milliseconds. */
const STEP_PAGES = 256

/** Pages that are kept for what is written next: 16 MiB. */
const SPARE_PAGES = 4096

/**
 * Gives the disk back what removed rows have left. Others have their turn after each step; `alone` lets it run
 * between two transactions. A database that was made without this keeps its size, and uses the room again.
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
    // As a statement it would give back one page: it has to be stepped to its end.
    await alone(async () => void database.exec(`PRAGMA incremental_vacuum(${STEP_PAGES})`))
    if (spare() >= before) return
    await soon()
  }
}
