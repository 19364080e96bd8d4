import type { EventLog } from "../events/log.ts"
import type { RestFiles } from "../events/rest-files.ts"
import type { Logger } from "../logging/logger.ts"
import type { Store } from "../store/open.ts"

export interface TidyParts {
  readonly events: Pick<EventLog, "removeBeyondSize">
  readonly store: Pick<Store, "db" | "compact">
  readonly rest: RestFiles | undefined
  readonly log: Logger
}

/** Removes events beyond the bounds, and gives the room back to the disk. */
export const tidy = async ({ events, store, rest, log }: TidyParts): Promise<void> => {
  try {
    await events.removeBeyondSize()
    await store.compact()
    const rows = await store.db.selectFrom("workspaces").select("slug").execute()
    await rest?.keepOnly(new Set(rows.map(({ slug }) => slug)))
  } catch (err) {
    log.warn({ op: "events.tidy", err }, "the event log could not be tidied; retrying in a minute")
  }
}
