import Sqlite from "better-sqlite3"
import { Kysely, SqliteAdapter } from "kysely"
import type { Database } from "../../store/database.ts"
import { storeDialect } from "../../store/dialect.ts"
import { migrate } from "../../store/migrate.ts"
import { MIGRATIONS } from "../../store/migrations/list.ts"

class UnguardedAdapter extends SqliteAdapter {
  /** No statement waits for another: whoever schedules them lets one happen at a time. */
  override get supportsMultipleConnections(): boolean {
    return true
  }
}

/** The store's own tables, in memory. */
export const openMemoryStore = async (): Promise<Sqlite.Database> => {
  const sqlite = new Sqlite(":memory:")
  sqlite.pragma("foreign_keys = ON")
  // The same few statements, thousands of times.
  const prepare = sqlite.prepare.bind(sqlite)
  const prepared = new Map<string, Sqlite.Statement>()
  sqlite.prepare = ((source: string) => {
    const statement = prepared.get(source) ?? prepare(source)
    prepared.set(source, statement)
    return statement
  }) as typeof sqlite.prepare
  await migrate(new Kysely<Database>({ dialect: storeDialect(sqlite) }), MIGRATIONS)
  return sqlite
}

/** The store's own statements: each, and each transaction, waits for `before` first. */
export const heldUp = (sqlite: Sqlite.Database, before: () => Promise<void>): Kysely<Database> => {
  const dialect = storeDialect(sqlite)
  return new Kysely<Database>({
    dialect: {
      ...dialect,
      createAdapter: () => new UnguardedAdapter(),
      createDriver: () => {
        const driver = dialect.createDriver()
        const acquire = driver.acquireConnection.bind(driver)
        driver.acquireConnection = async (...given) => {
          await before()
          return await acquire(...given)
        }
        return driver
      },
    },
  })
}
