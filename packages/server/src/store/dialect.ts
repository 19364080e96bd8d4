import { BerthError } from "@berth/protocol/errors"
import type Database from "better-sqlite3"
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from "kysely"
import { typedError } from "./typed-error.ts"

export interface CommitHooks {
  /** Called in a transaction that may have written, right before its commit. */
  committing(): void
  committed(): void
}

const NO_HOOKS: CommitHooks = { committing: () => {}, committed: () => {} }

/** Kysely over one better-sqlite3 connection. Every statement passes here, so every failure is typed here. */
export const storeDialect = (
  database: Database.Database,
  hooks: CommitHooks = NO_HOOKS,
): Dialect => ({
  createDriver: () => new StoreDriver(database, hooks),
  createQueryCompiler: () => new SqliteQueryCompiler(),
  createAdapter: () => new SqliteAdapter(),
  createIntrospector: (db) => new SqliteIntrospector(db),
})

class StoreDriver implements Driver {
  readonly #connection: StoreConnection

  constructor(database: Database.Database, hooks: CommitHooks) {
    this.#connection = new StoreConnection(database, hooks)
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection
  }

  async beginTransaction(_: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    this.#connection.begin(settings)
  }

  async commitTransaction(): Promise<void> {
    this.#connection.commit()
  }

  async rollbackTransaction(): Promise<void> {
    this.#connection.rollback()
  }

  async releaseConnection(): Promise<void> {}

  /** The opener of the connection closes it. */
  async destroy(): Promise<void> {}
}

/** The bound on kept statements: those with lists of any length are many. */
const MAX_STATEMENTS = 256

class StoreConnection implements DatabaseConnection {
  readonly #database: Database.Database
  readonly #statements = new Map<string, Database.Statement>()
  readonly #hooks: CommitHooks
  #inTransaction = false
  #isReadOnly = false
  /** The error at which SQLite itself ended the running transaction. */
  #endedBy: unknown

  constructor(database: Database.Database, hooks: CommitHooks) {
    this.#database = database
    this.#hooks = hooks
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    return this.#typed(() => {
      const statement = this.#prepare(sql)
      if (statement.reader) return { rows: statement.all(parameters) as Row[] }
      const { changes, lastInsertRowid } = statement.run(parameters)
      return { numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid), rows: [] }
    })
  }

  /** Refused: a stream would keep the only connection for as long as its reader takes. */
  streamQuery(): never {
    throw new Error("the store does not stream: read page by page, by key")
  }

  /**
   * Begins a transaction, with the write lock at once: one that reads first and then writes would otherwise fail
   * half-way when another process has written in between.
   */
  begin({ accessMode }: TransactionSettings): void {
    const isReadOnly = accessMode === "read only"
    this.#typed(() => {
      this.#database.exec(isReadOnly ? "begin" : "begin immediate")
    })
    this.#inTransaction = true
    this.#isReadOnly = isReadOnly
  }

  commit(): void {
    this.#typed(() => {
      if (!this.#isReadOnly) this.#hooks.committing()
      this.#database.exec("commit")
    })
    this.#inTransaction = false
    this.#hooks.committed()
  }

  /** Rolls back, unless SQLite has already done so: a second rollback would hide the first error. */
  rollback(): void {
    this.#inTransaction = false
    this.#endedBy = undefined
    if (this.#database.open && this.#database.inTransaction) {
      this.#typed(() => this.#database.exec("rollback"))
    }
  }

  /**
   * Keeps prepared statements: preparing takes longer than most statements do, and there are some hundred different
   * ones.
   */
  #prepare(sql: string): Database.Statement {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#database.prepare(sql)
    if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear()
    this.#statements.set(sql, statement)
    return statement
  }

  #typed<Result>(act: () => Result): Result {
    if (!this.#database.open) throw new BerthError("store.closed", "The store is closed")
    // In a transaction that SQLite has ended, later statements would each be committed alone.
    if (this.#endedBy !== undefined) throw this.#endedBy
    try {
      return act()
    } catch (thrown) {
      const error = typedError(thrown, this.#database.name)
      if (this.#inTransaction && !this.#database.inTransaction) this.#endedBy = error
      throw error
    }
  }
}
