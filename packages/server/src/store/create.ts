import { renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import { syncDirectory } from "@berth/local/owned/directory"
import Database from "better-sqlite3"
import { Kysely } from "kysely"
import { storeDialect } from "./dialect.ts"
import { migrate } from "./migrate.ts"
import type { Migration } from "./migrations/migration.ts"

/**
 * Makes a new database under another name and renames it when it is complete, so that no half-made one is ever found.
 */
export const createDatabase = async (
  path: string,
  migrations: readonly Migration[],
): Promise<void> => {
  const draft = `${path}.new`
  removeDraft(draft)
  try {
    await fill(draft, migrations)
    renameSync(draft, path)
  } finally {
    removeDraft(draft)
  }
  syncDirectory(dirname(path))
}

/**
 * Fills the draft. The write-ahead log is turned on last, when there is nothing left to write: on a full disk a log
 * that holds something outlives the close, and the rename would leave it behind.
 */
const fill = async (draft: string, migrations: readonly Migration[]): Promise<void> => {
  // SQLite gives its side files the mode of this one.
  writeFileSync(draft, "", { flag: "wx", mode: 0o600 })
  const database = new Database(draft, { fileMustExist: true })
  try {
    // SQLite takes this setting only before the first table is made: see compact.ts.
    database.pragma("auto_vacuum = INCREMENTAL")
    await migrate(new Kysely({ dialect: storeDialect(database) }), migrations)
    database.pragma("synchronous = FULL")
    database.pragma("journal_mode = WAL")
  } finally {
    database.close()
  }
}

const removeDraft = (draft: string): void => {
  for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(draft + suffix, { force: true })
}
