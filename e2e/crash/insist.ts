import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"

/** Covers a boot on a busy machine, and the attempts before it. */
export const PATIENCE_MS = 60_000

export const POLL_MS = 50

/** Asks again where asking again may help: the server is down for a moment, or its engine is slow. */
export const insist = async <Result>(call: () => Promise<Result>): Promise<Result> => {
  const until = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return await call()
    } catch (thrown) {
      const isBreak = thrown instanceof BerthError && thrown.retry !== "never"
      if (!isBreak || performance.now() > until) throw thrown
      await pause(POLL_MS)
    }
  }
}
