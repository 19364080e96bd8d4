import { setTimeout as pause } from "node:timers/promises"
import type { SessionId } from "@berth/protocol/ids"
import type { Logger } from "../logging/logger.ts"
import { backOffMs } from "./back-off.ts"

/**
 * Repeats work for a session until it succeeds: an accepted prompt waits for as long as it takes. Returns undefined if
 * the signal fires before.
 */
export type KeepTrying = <Result>(
  session: SessionId,
  work: () => Promise<Result>,
  signal: AbortSignal,
) => Promise<Result | undefined>

export const openKeepTrying =
  (log: Logger): KeepTrying =>
  async (session, work, signal) => {
    for (let waitMs = backOffMs(); ; waitMs = backOffMs(waitMs)) {
      try {
        return await work()
      } catch (err) {
        if (signal.aborted) return undefined
        log.error(
          { op: "session.drain", session, err },
          "driving the prompts of a session failed; retrying",
        )
        await pause(waitMs, undefined, { signal }).catch(() => {})
      }
    }
  }
