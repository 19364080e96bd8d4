import type { PromptId } from "@berth/protocol/ids"
import type { Transaction } from "kysely"
import type { Database } from "../store/database.ts"

/** The most interruptions in a row that are continued; then a person decides. */
export const MAX_CONTINUED = 3

/** The number of interruptions in a row that led to this one, including it. */
export const interruptedInARow = async (
  trx: Transaction<Database>,
  prompt: PromptId,
): Promise<number> => {
  let count = 0
  for (let id: PromptId | null = prompt; id !== null; count++) {
    const row: { continues: PromptId | null } | undefined = await trx
      .selectFrom("prompts")
      .select("continues")
      .where("id", "=", id)
      .executeTakeFirst()
    id = row?.continues ?? null
  }
  return count
}
