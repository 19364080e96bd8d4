import { BerthError } from "@berth/protocol/errors"
import { type Kysely, sql, type Transaction } from "kysely"
import { durably } from "./durably.ts"
import type { Migration } from "./migrations/migration.ts"

/**
 * Brings the schema to the newest version. Each migration runs once, in a transaction that also raises the version: if
 * it is interrupted, the database is as it was before.
 */
export const migrate = async <Tables>(
  db: Kysely<Tables>,
  migrations: readonly Migration[],
): Promise<void> => {
  const version = await schemaVersion(db)
  for (const [index, migration] of migrations.entries()) {
    if (index >= version) await run(db as Kysely<unknown>, migration, index + 1)
  }
}

export const schemaVersion = async <Tables>(db: Kysely<Tables>): Promise<number> => {
  const { rows } = await sql<{ user_version: number }>`pragma user_version`.execute(db)
  return rows[0]?.user_version ?? 0
}

const run = async (db: Kysely<unknown>, migration: Migration, version: number): Promise<void> => {
  // A table is rebuilt by dropping the old one, which would cascade to the rows that refer to it. SQLite takes the
  // setting only outside a transaction.
  await sql`pragma foreign_keys = off`.execute(db)
  try {
    await durably(db, async (trx) => {
      await migration.up(trx)
      await requireForeignKeys(trx)
      await sql`pragma user_version = ${sql.lit(version)}`.execute(trx)
    })
  } catch (thrown) {
    throw thrown instanceof BerthError ? thrown : failed(migration, version, thrown)
  } finally {
    await sql`pragma foreign_keys = on`.execute(db)
  }
}

const requireForeignKeys = async (trx: Transaction<unknown>): Promise<void> => {
  const { rows } = await sql<{ table: string; parent: string }>`pragma foreign_key_check`.execute(
    trx,
  )
  const [first] = rows
  if (first)
    throw new Error(`rows of ${first.table} refer to rows of ${first.parent} that are gone`)
}

const failed = (migration: Migration, version: number, cause: unknown): BerthError => {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new BerthError("store.migration_failed", `Migration ${migration.name} failed: ${reason}`, {
    details: { migration: migration.name, stayedAtVersion: version - 1 },
    cause,
  })
}
