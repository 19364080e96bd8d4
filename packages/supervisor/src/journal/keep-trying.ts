import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"

/** Interval at which a full disk is tried again: soon enough for a person who freed space, and no load. */
export const FULL_DISK_RETRY_MS = 500

/** Repeats a task while the disk is full. Throws every other failure, and the signal's reason. */
export const keepTrying = async <Result>(
  task: () => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> => {
  for (;;) {
    try {
      return await task()
    } catch (thrown) {
      if (!(thrown instanceof BerthError) || thrown.code !== "journal.disk_full") throw thrown
    }
    await pause(FULL_DISK_RETRY_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}
