import { BerthError } from "@berth/protocol/errors"
import { type Call, DEADLINES_MS } from "./backend.ts"

/**
 * Runs one operation under its deadline and the caller's signal. Every error leaves as a BerthError: a cancel, a missed
 * deadline, or the operation's own.
 */
export const withinDeadline = async <Result>(
  operation: string,
  defaultMs: number,
  { signal: caller, deadlineMs = defaultMs }: Call,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> => {
  const stop = new AbortController()
  const cancel = () =>
    stop.abort(new BerthError("cancelled", `${operation} was cancelled`, { cause: caller?.reason }))
  if (caller?.aborted) cancel()
  caller?.addEventListener("abort", cancel, { once: true })
  const timer = setTimeout(
    () =>
      stop.abort(
        new BerthError("deadline.exceeded", `${operation} did not end within ${deadlineMs} ms`, {
          details: { operation, deadlineMs },
        }),
      ),
    deadlineMs,
  )
  try {
    stop.signal.throwIfAborted()
    return await work(stop.signal)
  } catch (thrown) {
    if (stop.signal.aborted) throw stop.signal.reason
    throw thrown instanceof BerthError
      ? thrown
      : new BerthError("internal", `${operation} failed unexpectedly`, { cause: thrown })
  } finally {
    clearTimeout(timer)
    caller?.removeEventListener("abort", cancel)
  }
}

/** Runs a backend's operations, each under its own deadline, and turns what they throw into the backend's errors. */
export const operations =
  (asBackendError: (thrown: unknown, doing: string) => BerthError) =>
  <Result>(
    name: keyof typeof DEADLINES_MS,
    call: Call = {},
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> =>
    withinDeadline(`sandbox.${name}`, DEADLINES_MS[name], call, async (signal) => {
      try {
        return await work(signal)
      } catch (thrown) {
        throw asBackendError(thrown, name)
      }
    })
