import { BerthError } from "@berth/protocol/errors"

/** The deadline of a check. It takes milliseconds; ten seconds is enough even for a host that starts to swap. */
const CHECK_DEADLINE_MS = 10_000

/** The time that a check has, once it is told to stop, to remove what it made. */
const CLEANUP_DEADLINE_MS = 2_000

/**
 * Runs `work` with a signal that fires at the deadline or when the caller cancels. Work that obeys is
 * awaited, so its clean-up is done when this settles; work that hangs (a dead network mount cannot be
 * interrupted) is left behind after a further, short wait.
 */
export const withDeadline = async <Result>(
  work: (signal: AbortSignal) => Promise<Result>,
  caller: AbortSignal,
  { deadlineMs = CHECK_DEADLINE_MS, cleanupMs = CLEANUP_DEADLINE_MS } = {},
): Promise<Result> => {
  const stop = new AbortController()
  const cancel = () => stop.abort(caller.reason)
  if (caller.aborted) cancel()
  caller.addEventListener("abort", cancel, { once: true })
  const deadline = setTimeout(
    () => stop.abort(new BerthError("deadline.exceeded", `no answer within ${deadlineMs} ms`)),
    deadlineMs,
  )
  const abandoned = abandon(stop.signal, cleanupMs)
  try {
    return await Promise.race([work(stop.signal), abandoned.promise])
  } catch (thrown) {
    throw stop.signal.aborted ? stop.signal.reason : thrown
  } finally {
    clearTimeout(deadline)
    abandoned.clear()
    caller.removeEventListener("abort", cancel)
  }
}

/** A promise that rejects `afterMs` after the signal fired, and never before. */
const abandon = (signal: AbortSignal, afterMs: number) => {
  const { promise, reject } = Promise.withResolvers<never>()
  let timer: NodeJS.Timeout | undefined
  const arm = () => {
    timer = setTimeout(() => reject(signal.reason), afterMs)
  }
  if (signal.aborted) arm()
  else signal.addEventListener("abort", arm, { once: true })
  return { promise, clear: () => clearTimeout(timer) }
}
