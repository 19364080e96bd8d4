import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"

/** A person at a terminal notices a pause of this length; clients and servers do not give up on it. */
export const MAX_FROZEN_MS = 10_000

/** A cgroup that could not be thawed once is tried again at once: its sandbox is worth nothing frozen. */
const THAW_ATTEMPTS = 3

export interface Freezer {
  /** Stops every process of the sandbox; resolves when they stand still. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** Default: MAX_FROZEN_MS. */
  readonly maxFrozenMs?: number
}

/** Does the work while a sandbox stands still, and thaws it whatever becomes of the work, in time. */
export const whileFrozen = async (
  { freeze, thaw, maxFrozenMs = MAX_FROZEN_MS }: Freezer,
  sandbox: SandboxId,
  signal: AbortSignal | undefined,
  work: (untilThaw: AbortSignal) => Promise<void>,
): Promise<void> => {
  const overdue = new AbortController()
  const timer = setTimeout(() => overdue.abort(tooLong(sandbox, maxFrozenMs)), maxFrozenMs)
  const untilThaw = signal ? AbortSignal.any([signal, overdue.signal]) : overdue.signal
  const freezing = freeze()
  let answered = false
  try {
    await unlessAborted(untilThaw, freezing)
    answered = true
    await work(untilThaw)
    untilThaw.throwIfAborted()
  } finally {
    clearTimeout(timer)
    await surely(thaw, sandbox)
    // A freeze that was given up on may still take effect, after the thaw.
    if (!answered) freezing.then(thaw).catch(() => {})
  }
}

/** A freeze that never answers must not keep its sandbox waiting either. */
const unlessAborted = (signal: AbortSignal, work: Promise<void>): Promise<void> =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener("abort", abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort))
  })

const surely = async (thaw: () => Promise<void>, sandbox: SandboxId): Promise<void> => {
  let cause: unknown
  for (let attempt = 0; attempt < THAW_ATTEMPTS; attempt += 1) {
    try {
      return await thaw()
    } catch (thrown) {
      cause = thrown
    }
  }
  throw new BerthError("layers.thaw_failed", `${sandbox} could not be thawed`, {
    details: { sandbox },
    cause,
  })
}

const tooLong = (sandbox: SandboxId, maxFrozenMs: number): BerthError =>
  new BerthError(
    "deadline.exceeded",
    `the changes of ${sandbox} could not be copied within ${maxFrozenMs} ms; it runs on`,
    { details: { sandbox, deadlineMs: maxFrozenMs } },
  )
