import type { ErrorCode } from "@berth/protocol/errors"

/** A socket that is not there yet costs nothing to look for, and a boot is to be noticed at once. */
const LOOK_FIRST_MS = 10
const LOOK_MOST_MS = 100

/** A sandbox that answers wrongly costs work at every try. */
const RETRY_FIRST_MS = 50
const RETRY_MOST_MS = 10_000

/** How long to wait before the next try. `random` is below 1: those who failed together do not come back together. */
export const retryDelayMs = (failures: number, code: ErrorCode, random: number): number => {
  const [first, most] =
    code === "bridge.unreachable" ? [LOOK_FIRST_MS, LOOK_MOST_MS] : [RETRY_FIRST_MS, RETRY_MOST_MS]
  const delayMs = Math.min(most, first * 2 ** Math.min(failures - 1, 20))
  return delayMs * (0.5 + random / 2)
}
