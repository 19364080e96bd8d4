import type { Logger } from "../../logging/logger.ts"
import type { Store } from "../../store/open.ts"
import type { Clock } from "./clock.ts"
import { type Decisions, openDecisions } from "./decisions.ts"
import { Departures } from "./departures.ts"
import type { Records } from "./records.ts"
import { openRows, type Rows } from "./rows.ts"
import type { SharedDirectories } from "./shared-directories.ts"
import { Transients } from "./transients.ts"
import { openWorkspaces, type Workspaces } from "./workspaces.ts"

export interface StateParts {
  readonly store: Pick<Store, "db">
  readonly sharedDirectories: SharedDirectories
  readonly records: Records
  readonly clock: Clock
  readonly log: Logger
}

/** The stored facts about sandboxes and workspaces, and the transient ones. */
export interface State {
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly decisions: Decisions
  readonly departures: Departures
  readonly transients: Transients
  readonly sharedDirectories: SharedDirectories
  readonly records: Records
  readonly clock: Clock
}

export const openState = (parts: StateParts): State => {
  const { clock, records, log } = parts
  const { db } = parts.store
  const rows = openRows(db, clock)
  return {
    rows,
    workspaces: openWorkspaces(db, clock),
    decisions: openDecisions(db, clock),
    departures: new Departures(rows),
    transients: new Transients(),
    sharedDirectories: {
      ...parts.sharedDirectories,
      remove: async (sandbox) => {
        const err = await parts.sharedDirectories.remove(sandbox)
        if (err !== undefined)
          log.warn(
            { op: "shared.remove", sandbox, err },
            "the shared directory of a sandbox cannot be removed",
          )
        return err
      },
    },
    records,
    clock,
  }
}
