import type { Transaction } from "kysely"
import type { Database } from "./database.ts"

/**
 * Of a database that was put back from a copy: what it says of things that run was true once. Those that end with
 * their own result, and never by time, are taken out; what lives is asked of the sandboxes.
 */
export const disbelieve = async (trx: Transaction<Database>): Promise<void> => {
  await trx.deleteFrom("leases").where("kind", "in", ["prompt", "exec"]).execute()
}
