import type { SandboxId } from "@berth/protocol/ids"
import type { Rows } from "./rows.ts"

export interface GivingUp {
  readonly reason: string
  /** The subjects of the leases of whoever gives it up. */
  readonly by: readonly string[]
}

/** Ends a sandbox that does not answer to a person, unless others use it. Returns whether it ends. */
export const openGiveUp =
  ({ rows, wake }: { readonly rows: Rows; readonly wake: (sandbox: SandboxId) => void }) =>
  async (sandbox: SandboxId, { reason, by }: GivingUp): Promise<boolean> => {
    const isBegun = await rows.beginStopUnlessUsed(sandbox, { cause: "person", reason }, by)
    if (isBegun) wake(sandbox)
    const phase = (await rows.get(sandbox))?.phase
    return phase === undefined || phase === "stopping" || phase === "gone"
  }
