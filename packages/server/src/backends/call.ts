import { BerthError } from "@berth/protocol/errors"
import type { Call } from "./backend.ts"

/**
 * Runs one operation under its deadline and the caller's signal. Whatever is thrown leaves as a BerthError:
 * a cancel, a missed deadline, or what the operation itself said.
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
