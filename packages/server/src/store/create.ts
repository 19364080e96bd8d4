import { renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname } from "node:path"
import { Kysely } from "kysely"
import { connect } from "./connect.ts"
import { syncDirectory } from "./data-directory.ts"
import { storeDialect } from "./dialect.ts"
import { migrate } from "./migrate.ts"
import type { Migration } from "./migrations/migration.ts"

/** Makes a new database aside and gives it its name when it is complete, so no half-made one is ever found. */
export const createDatabase = async (
  path: string,
  migrations: readonly Migration[],
): Promise<void> => {
  const draft = `${path}.new`
  removeDraft(draft)
  try {
    // SQLite gives its side files the mode of this one.
    writeFileSync(draft, "", { flag: "wx", mode: 0o600 })
    const database = connect(draft)
    try {
      await migrate(new Kysely({ dialect: storeDialect(database) }), migrations)
    } finally {
      database.close()
    }
    renameSync(draft, path)
  } catch (thrown) {
    removeDraft(draft)
    throw thrown
  }
  syncDirectory(dirname(path))
}

const removeDraft = (draft: string): void => {
  for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(draft + suffix, { force: true })
}
