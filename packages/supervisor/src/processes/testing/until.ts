import { setTimeout as delay } from "node:timers/promises"

const LOOK_MS = 5

/** Polls until `look` returns something, for conditions without an event. The test's own time limit bounds it. */
export const until = async <T>(look: () => T | Promise<T>): Promise<NonNullable<T>> => {
  for (;;) {
    const seen = await look()
    if (seen) return seen
    await delay(LOOK_MS)
  }
}
