import type { Sequence } from "@berth/protocol/event"

/** An event of a session as it is kept. */
export interface StoredEvent {
  readonly sequence: Sequence
  readonly type: string
  /** The whole event (protocol `Event`) as JSON, in one line. */
  readonly json: string
}
