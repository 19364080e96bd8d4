import { Activity } from "@berth/protocol/activity"
import { GET_DEADLINE_MS, getFromSandbox } from "./get.ts"

export interface ActivitySource {
  readonly socket: string
  readonly token: string
}

export interface ActivityQuestion {
  /** The version that is known: the answer comes when there is another, or when the wait is over. */
  readonly after?: number
  /** At most MAX_ACTIVITY_WAIT_MS. Default: none. */
  readonly waitMs?: number
}

/** Ids of as many prompts, commands and terminals as there may be, with room to spare. */
const MAX_ACTIVITY_BYTES = 512 * 1024

/**
 * What lives in a sandbox, as its supervisor says. That is the word of a hostile one, too: it can claim to be in use
 * for as long as it likes, and harm nobody but itself by denying it. One that does not answer has said nothing.
 */
export const readActivity = (
  { socket, token }: ActivitySource,
  { after, waitMs = 0 }: ActivityQuestion,
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
