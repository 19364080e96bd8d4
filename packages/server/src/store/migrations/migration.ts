import type { Transaction } from "kysely"

/**
 * A step of the schema. It is written once and never edited after a release: databases that have run it do not run it
 * again.
 */
export interface Migration {
  /** The name of the migration's file. */
  readonly name: string
  /** The tables are those of that version, so their types are not today's: write SQL. */
  readonly up: (trx: Transaction<unknown>) => Promise<void>
}
