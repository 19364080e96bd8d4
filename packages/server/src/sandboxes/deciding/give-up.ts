import type { SandboxId } from "@berth/protocol/ids"
import type { Rows } from "../state/rows.ts"

export interface GivingUp {
  readonly reason: string
  /** The subjects of the leases of the one who gives the sandbox up. */
  readonly by: readonly string[]
}

export interface GiveUpParts {
  readonly rows: Rows
  readonly haltOf: (sandbox: SandboxId) => string | undefined
  readonly wake: (sandbox: SandboxId) => void
}

/**
 * Ends a sandbox that does not answer to a person. Returns why it stays; undefined: it ends. A halted sandbox stays: it
 * answers when there is room, and a person may be about to make room among its files.
 */
export const openGiveUp =
  ({ rows, haltOf, wake }: GiveUpParts) =>
  async (sandbox: SandboxId, { reason, by }: GivingUp): Promise<string | undefined> => {
    const halt = haltOf(sandbox)
    const stop = { cause: "person", reason } as const
    if (halt === undefined && (await rows.beginStopUnlessUsed(sandbox, stop, by))) wake(sandbox)
    const phase = (await rows.get(sandbox))?.phase
    if (phase === undefined || phase === "stopping" || phase === "gone") return undefined
    return halt === undefined ? "others use it" : `it is halted (${halt})`
  }
