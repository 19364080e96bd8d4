import { type Backoff, backoffMs } from "@berth/host/backoff"
import { ERRORS, type ErrorCode } from "@berth/protocol/errors"

/** Looking for a socket that is not there yet costs nothing, and a boot should be noticed at once. */
const LOOK_FIRST_MS = 10
const LOOK_MOST_MS = 100

/** A connection that breaks is usually back at once. */
const RETRY_FIRST_MS = 50
const RETRY_MOST_MS = 1_000

/** A sandbox that answers wrongly costs work at every try, and is not likely to change. */
const WRONG_MOST_MS = 10_000

/** A sandbox that has behaved for this long is forgiven one wrong answer. */
const WRONG_FORGIVEN_MS = 60_000

/** The wait does not grow beyond this count, so no more are remembered. */
const MOST_WRONGS = 10

/**
 * Counts the wrong answers of one sandbox over all of its connections. Good messages in between do not lower the
 * count, since they cost the sandbox nothing; time does.
 */
export class Wrongs {
  #count = 0
  #atMs = 0

  /** Counts one more wrong answer, and returns how many are remembered. */
  add(nowMs: number): number {
    const forgiven = Math.floor((nowMs - this.#atMs) / WRONG_FORGIVEN_MS)
    this.#count = Math.min(MOST_WRONGS, Math.max(0, this.#count - forgiven) + 1)
    this.#atMs = nowMs
    return this.#count
  }
}

/** The wait before the next try. `random` is below 1: bridges that failed together do not come back together. */
export const retryDelayMs = (failures: number, code: ErrorCode, random: number): number => {
  return backoffMs(failures, boundsOf(code)) * (0.5 + random / 2)
}

const boundsOf = (code: ErrorCode): Backoff => {
  if (code === "bridge.unreachable") return { firstMs: LOOK_FIRST_MS, mostMs: LOOK_MOST_MS }
  return { firstMs: RETRY_FIRST_MS, mostMs: isWrong(code) ? WRONG_MOST_MS : RETRY_MOST_MS }
}

/** Whether the same connection would fail again: such a failure waits longer than a broken connection. */
export const isWrong = (code: ErrorCode): boolean => ERRORS[code].retry === "never"
