import type { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Unrepaired } from "./backend.ts"
import { operations } from "./call.ts"

/**
 * The deadline for one leftover: far above what a removal takes, and below that of `repair` for all, so that one that
 * hangs holds up no other.
 */
const ONE_DEADLINE_MS = 10_000

/** Cleans up leftovers one by one, and collects failures instead of throwing them. */
export const repairing = (
  asBackendError: (thrown: unknown, doing: string) => BerthError,
  signal: AbortSignal,
) => {
  const unrepaired: Unrepaired[] = []
  const operation = operations(asBackendError)
  /** Returns whether the work succeeded. */
  const attempt = async (
    sandbox: SandboxId | undefined,
    work: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<boolean> => {
    try {
      await operation("remove", { signal, deadlineMs: ONE_DEADLINE_MS }, work)
      return true
    } catch (thrown) {
      signal.throwIfAborted()
      unrepaired.push({ sandbox, failure: thrown as BerthError })
      return false
    }
  }
  return { attempt, unrepaired }
}
