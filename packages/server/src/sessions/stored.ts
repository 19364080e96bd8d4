import type { SessionId } from "@berth/protocol/ids"
import { type EventLog, openLog } from "../events/log.ts"
import { openRestFiles, type RestFiles } from "../events/rest-files.ts"
import { Turns } from "../events/turns.ts"
import type { SandboxEvents } from "../sandboxes/keeping/connection.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { Store } from "../store/open.ts"
import { Changes } from "./changes.ts"
import { openRows, type Rows } from "./rows.ts"
import { openSandboxEvents } from "./take.ts"

/** The store's part of sessions. It is open before any sandbox is, because the events of sandboxes are stored here. */
export interface Stored {
  readonly log: EventLog
  readonly rest: RestFiles | undefined
  readonly rows: Rows
  readonly changes: Changes
  readonly events: SandboxEvents
  /** The turns for work in the store whose amount others choose. */
  readonly turns: Turns
  /** Calls the listener after every change of a session's prompts, from now on. */
  onChange(listener: (session: SessionId) => void): void
}

export const openStored = ({
  store,
  clock,
  logsDir,
  turns = new Turns(),
}: {
  readonly store: Pick<Store, "db" | "durably">
  readonly clock: Clock
  /** The directory for output that the log leaves out; without it, it is not kept. */
  readonly logsDir?: string
  readonly turns?: Turns
}): Stored => {
  const rest = logsDir === undefined ? undefined : openRestFiles(logsDir)
  const log = openLog(store.db, () => clock.now(), turns, rest)
  let listener: (session: SessionId) => void = () => {}
  const onChange = (session: SessionId) => listener(session)
  const changes = new Changes({ store, log, clock, onChange })
  return {
    log,
    changes,
    rest,
    turns,
    rows: openRows(store.db),
    events: openSandboxEvents({ store, log, changes, clock, turns, onChange }),
    onChange: (next) => {
      listener = next
    },
  }
}
