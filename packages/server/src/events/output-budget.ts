import type { EventBody } from "@berth/protocol/event"

const MIB = 1024 * 1024

/**
 * Bytes of events that the store holds for one session before output is cut: hours of an agent that talks all the time,
 * and less than a second of a command that writes without end.
 */
export const SESSION_BYTES = 32 * MIB

/** Bytes that a sandbox may add over all of its sessions: at once, and for each second that passes. */
export const SANDBOX_BYTES = 128 * MIB
export const SANDBOX_BYTES_PER_SECOND = 16 * 1024

/** Room beyond the budget for events that are no output; and as much again for questions to people. */
export const SPARE_BYTES = 8 * MIB

/** The bytes that are left to a sandbox. Storing its events takes from them. */
export interface SandboxRoom {
  leftBytes: number
}

/** The room of a sandbox that had used `used.bytes` at `used.atMs`. */
export const sandboxRoom = (
  used: { readonly bytes: number; readonly atMs: number },
  nowMs: number,
): SandboxRoom => {
  const earned = (Math.max(0, nowMs - used.atMs) / 1000) * SANDBOX_BYTES_PER_SECOND
  return { leftBytes: SANDBOX_BYTES - Math.max(0, used.bytes - earned) }
}

/** The part of an event that is stored when a budget is exceeded by so many bytes; undefined: nothing of it. */
export const partWithin = (body: EventBody, excessBytes: number): EventBody | undefined => {
  if (excessBytes <= 0 || body.type === "prompt.state") return body
  if (excessBytes > 2 * SPARE_BYTES) return undefined
  switch (body.type) {
    case "permission.asked":
    case "permission.answered":
    case "question.asked":
    case "question.answered":
      return body
  }
  if (excessBytes > SPARE_BYTES) return undefined
  switch (body.type) {
    case "message.delta":
    case "boot.step.output":
      return undefined
    case "tool.started": {
      const { input, ...rest } = body
      return input === undefined ? body : rest
    }
    case "tool.completed": {
      const { output, ...rest } = body
      return output === undefined ? body : rest
    }
    default:
      return body
  }
}
