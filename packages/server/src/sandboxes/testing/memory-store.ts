import Sqlite from "better-sqlite3"
import { type DatabaseConnection, Kysely, SqliteAdapter } from "kysely"
import type { Database } from "../../store/database.ts"
import { storeDialect } from "../../store/dialect.ts"
import { migrate } from "../../store/migrate.ts"
import { MIGRATIONS } from "../../store/migrations/list.ts"

class UnguardedAdapter extends SqliteAdapter {
  /** No statement waits for another here: the schedule lets one happen at a time. */
  override get supportsMultipleConnections(): boolean {
    return true
  }
}

/** Opens the store's own tables in memory. `mutate` changes statements, to show the effect of a fault in one. */
export const openMemoryStore = async (
  mutate: (statement: string) => string = (statement) => statement,
): Promise<Sqlite.Database> => {
  const sqlite = new Sqlite(":memory:")
  sqlite.pragma("foreign_keys = ON")
  // The same few statements run thousands of times.
  const prepare = sqlite.prepare.bind(sqlite)
  const prepared = new Map<string, Sqlite.Statement>()
  sqlite.prepare = ((source: string) => {
    const statement = prepared.get(source) ?? prepare(mutate(source))
    prepared.set(source, statement)
    return statement
  }) as typeof sqlite.prepare
  await migrate(new Kysely<Database>({ dialect: storeDialect(sqlite) }), MIGRATIONS)
  return sqlite
}

/** The waits before the statements of a store. */
export interface Hold {
  readonly beforeRead: () => Promise<void>
  /** Awaited before a statement that writes, and before a transaction. */
  readonly beforeWrite: () => Promise<void>
}

/** The store with a wait before each statement and each transaction. */
export const heldUp = (
  sqlite: Sqlite.Database,
  { beforeRead, beforeWrite }: Hold,
): Kysely<Database> => {
  const dialect = storeDialect(sqlite)
  const createDriver = () => {
    const driver = dialect.createDriver()
    const acquire = driver.acquireConnection.bind(driver)
    const begin = driver.beginTransaction.bind(driver)
    driver.acquireConnection = async (...given) => heldConnection(await acquire(...given))
    driver.beginTransaction = async (connection, settings) => {
      await beforeWrite()
      inTransaction.add(connection)
      await begin(connection, settings)
    }
    return driver
  }
  const inTransaction = new WeakSet<DatabaseConnection>()
  const heldConnection = (connection: DatabaseConnection): DatabaseConnection => {
    const held: DatabaseConnection = {
      executeQuery: async (query) => {
        const before = sqlite.prepare(query.sql).readonly ? beforeRead : beforeWrite
        if (!inTransaction.has(held)) await before()
        return await connection.executeQuery(query)
      },
      streamQuery: (...given) => connection.streamQuery(...given),
    }
    return held
  }
  return new Kysely<Database>({
    dialect: { ...dialect, createAdapter: () => new UnguardedAdapter(), createDriver },
  })
}
