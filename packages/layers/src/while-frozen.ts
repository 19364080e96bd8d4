import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { whileMoving } from "./while-moving.ts"

/** A frozen sandbox is woken if nothing of it is copied for this long: its disk is broken or far too busy. */
const MAX_FROZEN_STALL_MS = 10_000

/** A cgroup that could not be thawed is tried again at once: a sandbox is useless while it is frozen. */
const THAW_ATTEMPTS = 3

export interface Freezer {
  /** Stops every process of the sandbox; resolves when they stand still. */
  freeze(): Promise<void>
  thaw(): Promise<void>
  /** How long the copy may stand still while the sandbox is frozen. Default: MAX_FROZEN_STALL_MS. */
  readonly frozenStallMs?: number
}

/**
 * Does the work while a sandbox is frozen, and thaws it whatever becomes of the work. Returns how long it was frozen.
 * The work has the time that it needs, as long as it reports progress.
 */
export const whileFrozen = async (
  { freeze, thaw, frozenStallMs = MAX_FROZEN_STALL_MS }: Freezer,
  sandbox: SandboxId,
  signal: AbortSignal | undefined,
  work: (untilThaw: AbortSignal, moved: () => void) => Promise<void>,
): Promise<number> => {
  const stalled = () => tooLong(sandbox, frozenStallMs)
  const startedMs = performance.now()
  await whileMoving({ signal, stallMs: frozenStallMs, stalled }, async (untilThaw, moved) => {
    const freezing = freeze()
    let answered = false
    try {
      await unlessAborted(untilThaw, freezing)
      answered = true
      moved()
      await work(untilThaw, moved)
      untilThaw.throwIfAborted()
    } finally {
      await surely(thaw, sandbox)
      // A freeze that was given up on may still take effect after the thaw, so it is thawed again.
      if (!answered) freezing.then(thaw).catch(() => {})
    }
  })
  return performance.now() - startedMs
}

/** Rejects when the signal fires: a freeze that never answers must not keep its sandbox waiting. */
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

const tooLong = (sandbox: SandboxId, stallMs: number): BerthError =>
  new BerthError(
    "deadline.exceeded",
    `${sandbox} stood still and nothing of it could be copied for ${stallMs / 1_000} s; it runs on. Stop it and try again: of a stopped one nothing is copied`,
    { details: { sandbox, deadlineMs: stallMs } },
  )
