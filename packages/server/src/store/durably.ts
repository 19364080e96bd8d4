import { type Kysely, sql, type Transaction } from "kysely"

/**
 * Runs `work` in a transaction that is on disk when the promise resolves: a 202 may follow it. One sync of the log also
 * makes every earlier commit durable. SQLite takes the setting only outside a transaction, so the connection is kept
 * from before the begin until after the commit.
 */
export const durably = <Tables, Result>(
  db: Kysely<Tables>,
  work: (trx: Transaction<Tables>) => Promise<Result>,
  onDurable: () => void = () => {},
): Promise<Result> =>
  db.connection().execute(async (connection) => {
    await sql`pragma synchronous = full`.execute(connection)
    try {
      const result = await connection.transaction().execute(work)
      onDurable()
      return result
    } finally {
      await sql`pragma synchronous = normal`.execute(connection)
    }
  })
