import { Throttle } from "@berth/host/throttle"
import {
  BURST_BYTES,
  BURST_PARSE_MS,
  BYTES_PER_SECOND,
  EVENT_COST_BYTES,
  PARSE_MS_PER_SECOND,
} from "./limits.ts"

/**
 * The rate at which one sandbox is read, over all of its connections: by bytes sent, and by the time that parsing
 * takes.
 */
export class Pace {
  readonly #bytes: Throttle
  readonly #parsing: Throttle

  constructor(nowMs: number) {
    this.#bytes = new Throttle({ perSecond: BYTES_PER_SECOND, burst: BURST_BYTES }, nowMs)
    this.#parsing = new Throttle({ perSecond: PARSE_MS_PER_SECOND, burst: BURST_PARSE_MS }, nowMs)
  }

  /** Counts a message, and returns how long to read nothing more. */
  take(
    message: { readonly bytes: number; readonly events: number; readonly parseMs: number },
    nowMs: number,
  ): number {
    const cost = message.bytes + message.events * EVENT_COST_BYTES
    return Math.max(this.#bytes.take(cost, nowMs), this.#parsing.take(message.parseMs, nowMs))
  }
}

/** The processor time of this thread. Unlike a clock's time, it does not grow while others have the processor. */
export const threadMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
