import type { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"

/** Why a sandbox does nothing for its prompt; for how long, where that is known. */
export interface Hindrance {
  readonly code: string
  readonly message: string
  readonly forMs?: number
}

/**
 * Finds out why the sandbox does nothing for the prompt; undefined: there is no reason. `refusal` is how the last call
 * about the prompt failed.
 */
export const openHindranceOf =
  (sandboxes: Pick<UsedSandboxes, "kept" | "haltOf">) =>
  (sandbox: SandboxId, refusal: BerthError | undefined): Hindrance | undefined => {
    const halt = sandboxes.haltOf(sandbox)
    if (halt !== undefined)
      return { code: "sandbox.halted", message: `${sandbox} is halted: ${halt}` }
    const silence = silenceOf(sandboxes, sandbox)
    if (silence === undefined) return refusal
    const { reason, forMs } = silence
    return {
      code: reason?.code ?? "bridge.unreachable",
      message: `${sandbox} is not reached${reason ? `: ${reason.message}` : ""}`,
      forMs,
    }
  }

/** The state of a sandbox that is not connected: for how long, and why as far as that is known. */
interface Silence {
  readonly forMs: number
  readonly reason: BerthError | undefined
}

const silenceOf = (
  sandboxes: Pick<UsedSandboxes, "kept">,
  sandbox: SandboxId,
): Silence | undefined => {
  try {
    return sandboxes.kept(sandbox).silence
  } catch {
    // There is no connection: the sandbox has ended, or is about to be found again.
    return undefined
  }
}
