import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import {
  type LockHolder,
  readLockHolder,
  removeLockHolder,
  writeLockHolder,
} from "@berth/local/lock-holder"
import { BerthError } from "@berth/protocol/errors"
import Database from "better-sqlite3"
import { typedError } from "./typed-error.ts"

/** The winner writes its note microseconds after it has the lock; a slow host gets far longer than that. */
const NOTE_WITHIN_MS = 1_000
const RETRY_MS = 20

export interface DataDirectoryLock {
  release(): void
}

/**
 * Refuses a second server on the same data directory. The lock is SQLite's write lock on an empty
 * file: the kernel drops it when the process ends, however it ends, so nothing stale can block.
 */
export const lockDataDirectory = async (dataDir: string): Promise<DataDirectoryLock> => {
  const path = join(dataDir, "server.lock")
  const giveUpAt = performance.now() + NOTE_WITHIN_MS
  for (;;) {
    const database = tryLock(path)
    if (database) return announce(database, dataDir)
    const holder = readLockHolder(dataDir)
    if (holder || performance.now() > giveUpAt) throw locked(dataDir, holder)
    await delay(RETRY_MS)
  }
}

const tryLock = (path: string): Database.Database | undefined => {
  let database: Database.Database | undefined
  try {
    createEmpty(path)
    database = new Database(path, { fileMustExist: true, timeout: 0 })
    // Without this the pending write, which is never committed, would make a journal file.
    database.pragma("journal_mode = MEMORY")
    // Not `exclusive`: that fails for everyone when several processes try at the same moment.
    database.exec("BEGIN IMMEDIATE")
    return database
  } catch (thrown) {
    database?.close()
    if (thrown instanceof Database.SqliteError && thrown.code === "SQLITE_BUSY") return undefined
    throw typedError(thrown, path)
  }
}

/**
 * Nothing but SQLite may open a lock file that exists: the kernel drops all of a process's locks on
 * a file when the process closes any handle of it. `wx` fails before it opens.
 */
const createEmpty = (path: string): void => {
  try {
    writeFileSync(path, "", { flag: "wx", mode: 0o600 })
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown
  }
}

const announce = (database: Database.Database, dataDir: string): DataDirectoryLock => {
  try {
    writeLockHolder(dataDir)
  } catch (thrown) {
    database.close()
    throw typedError(thrown, dataDir)
  }
  return {
    release: () => {
      if (!database.open) return
      removeLockHolder(dataDir)
      database.close()
    },
  }
}

const locked = (dataDir: string, holder: LockHolder | undefined): BerthError =>
  new BerthError(
    "store.locked",
    holder
      ? `${dataDir} is in use by the server with pid ${holder.pid}, since ${holder.since}`
      : `${dataDir} is in use by a server whose process cannot be seen from here; it may run in another container`,
    { details: { dataDir, ...(holder && { pid: holder.pid, since: holder.since }) } },
  )
