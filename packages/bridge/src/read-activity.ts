import { Activity } from "@berth/protocol/activity"
import { GET_DEADLINE_MS, getFromSandbox } from "./get.ts"

export interface ActivitySource {
  readonly socket: string
  readonly token: string
}

export interface ActivityQuery {
  /** The known version: the answer comes when there is another, or when the wait is over. */
  readonly after?: number
  /** At most MAX_ACTIVITY_WAIT_MS. Default: none. */
  readonly waitMs?: number
}

/** Room for the ids of as many prompts, commands and terminals as there may be, and more. */
const MAX_ACTIVITY_BYTES = 512 * 1024

/**
 * Asks the supervisor what lives in its sandbox. A hostile one may lie: it can claim to be in use for as long as it
 * likes, and harms nobody but itself by denying it. If it does not answer, nothing is known.
 */
export const readActivity = (
  { socket, token }: ActivitySource,
  { after, waitMs = 0 }: ActivityQuery,
  signal: AbortSignal,
): Promise<Activity> => {
  const question = after === undefined ? "" : `?after=${after}&wait=${waitMs}`
  return getFromSandbox(
    {
      address: { path: socket },
      token,
      path: `/activity${question}`,
      schema: Activity,
      deadlineMs: waitMs + GET_DEADLINE_MS,
      maxBytes: MAX_ACTIVITY_BYTES,
    },
    signal,
  )
}
