import type { EventBody } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import { type SandboxRoom, SESSION_BYTES } from "./output-budget.ts"

/** An event that has no number yet. */
export interface NewEvent {
  readonly session: SessionId
  readonly at: string
  readonly body: EventBody
  /** The budget of the sandbox that sent the event. The server's own events have none, and are stored whole. */
  readonly room?: SandboxRoom
}

/** An event as it would be stored, but for its number. */
export interface Measured extends NewEvent {
  /** The body as JSON. */
  readonly text: string
  readonly bytes: number
  /** The bytes by which the sandbox's budget is exceeded with this event. */
  readonly sandboxExcess: number
}

/** Bytes that the store keeps beside the body: the number, counted as seven digits, and the field names. */
const ENVELOPE_BYTES = '{"sequence":1234567,"at":"","body":}'.length

export const measure = (event: NewEvent): Measured => {
  const { session, at, body, room } = event
  const text = JSON.stringify(body)
  const bytes = ENVELOPE_BYTES + at.length + Buffer.byteLength(text)
  if (room === undefined) return { session, at, body, text, bytes, sandboxExcess: 0 }
  room.leftBytes -= bytes
  return { session, at, body, room, text, bytes, sandboxExcess: -room.leftBytes }
}

/** Whether all events fit the budgets. `counted`: the bytes of the sessions including them. */
export const isWithin = (
  events: readonly Measured[],
  counted: readonly { readonly event_bytes: number }[],
): boolean =>
  counted.every(({ event_bytes }) => event_bytes <= SESSION_BYTES) &&
  events.every(({ sandboxExcess }) => sandboxExcess <= 0)
