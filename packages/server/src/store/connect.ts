import { BerthError } from "@berth/protocol/errors"
import Database from "better-sqlite3"

/**
 * How long a statement waits for a lock. Only a person's tool (a backup, a shell) ever holds one,
 * and the whole server stands still while it waits.
 */
export const BUSY_TIMEOUT_MS = 2_000

/** Opens an existing database for reading and writing, with the settings that the store relies on. */
export const connect = (path: string): Database.Database => {
  const database = new Database(path, { fileMustExist: true, timeout: BUSY_TIMEOUT_MS })
  try {
    const journalMode = database.pragma("journal_mode = WAL", { simple: true })
    if (journalMode !== "wal") {
      throw new BerthError(
        "store.io",
        `${path} lies on a file system without write-ahead logging`,
        {
          details: { path, journalMode },
        },
      )
    }
    database.pragma("foreign_keys = ON")
    // An ordinary commit survives the death of any process; one that must survive a power loss goes
    // through `durably`.
    database.pragma("synchronous = NORMAL")
    return database
  } catch (thrown) {
    database.close()
    throw thrown
  }
}
