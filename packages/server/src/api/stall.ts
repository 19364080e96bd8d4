import { BerthError } from "@berth/protocol/errors"

const LOOK_EVERY_MS = 1_000

/** Longer than a slow disk or a paused terminal makes anybody wait. */
const STALL_MS = 10 * 60_000

export interface Stall {
  /** Whether the client owes something now: time in which it waits for the server does not count. */
  readonly owes: () => boolean
  /** Changes when the client takes or gives something. */
  readonly progress: () => number
  readonly onOver: (why: BerthError) => void
}

/** Bounds how long a client may neither send nor read. */
export const watchStall = ({ owes, progress, onOver }: Stall): Disposable => {
  let stalledMs = 0
  let before = progress()
  const timer = setInterval(() => {
    const now = progress()
    stalledMs = owes() && now === before ? stalledMs + LOOK_EVERY_MS : 0
    before = now
    if (stalledMs >= STALL_MS) onOver(stalled())
  }, LOOK_EVERY_MS).unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

const stalled = (): BerthError =>
  new BerthError("deadline.exceeded", "nothing was sent or read for ten minutes", {
    details: { deadlineMs: STALL_MS },
  })
