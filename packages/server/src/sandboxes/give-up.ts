import type { SandboxId } from "@berth/protocol/ids"
import type { StopCause } from "../store/database.ts"
import type { Rows } from "./rows.ts"

export interface GivingUp {
  /** person: somebody wants it ended. ended: it is presumed dead, and taken up again if it turns out to live. */
  readonly cause: Extract<StopCause, "person" | "ended">
  readonly reason: string
  /** The subjects of the leases of whoever gives it up. */
  readonly by: readonly string[]
}

/** Ends a sandbox that does not answer, unless others use it. Returns whether it ends. */
export const openGiveUp =
  ({ rows, wake }: { readonly rows: Rows; readonly wake: (sandbox: SandboxId) => void }) =>
  async (sandbox: SandboxId, { cause, reason, by }: GivingUp): Promise<boolean> => {
    const isBegun = await rows.beginStopUnlessUsed(sandbox, { cause, reason }, by)
    if (isBegun) wake(sandbox)
    const phase = (await rows.get(sandbox))?.phase
    return phase === undefined || phase === "stopping" || phase === "gone"
  }
