import { BerthError } from "@berth/protocol/errors"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { SandboxIdentity } from "@berth/protocol/sandbox"
import type { EngineState, ObservedSandbox } from "./backend.ts"

/** The refusals that every backend words alike: unknown and foreign sandboxes, conflicts, and wrong states. */

export const refuseUnknown = (sandbox: SandboxId): never => {
  throw new BerthError("backend.unknown_sandbox", "there is no such sandbox", {
    details: { sandbox },
  })
}

export const refuseForeign = (
  identity: Pick<SandboxIdentity, "installation">,
  installation: InstallationId,
): void => {
  if (identity.installation === installation) return
  throw new BerthError("input.invalid", "the sandbox belongs to another installation", {
    details: { path: "identity.installation", given: identity.installation, allowed: installation },
  })
}

/** Refuses a sandbox to be created whose id exists already with another configuration. */
export const refuseOtherConfiguration = (
  given: Pick<SandboxIdentity, "sandbox" | "configHash">,
  existing: Pick<SandboxIdentity, "configHash">,
): void => {
  if (given.configHash === existing.configHash) return
  throw new BerthError("backend.conflict", "a sandbox of this id has another configuration", {
    details: { sandbox: given.sandbox, given: given.configHash, exists: existing.configHash },
  })
}

interface StateChange {
  readonly from: EngineState
  readonly to: EngineState
  /** The word for the change in a message. */
  readonly done: string
}

const STATE_CHANGES = {
  start: { from: "created", to: "running", done: "started" },
  pause: { from: "running", to: "paused", done: "paused" },
  resume: { from: "paused", to: "running", done: "resumed" },
} as const satisfies Record<string, StateChange>

/** Whether a sandbox has still to make a change of state; false if it has made it. Refuses any other state. */
export const hasToChange = (
  change: keyof typeof STATE_CHANGES,
  { identity: { sandbox }, state }: Pick<ObservedSandbox, "identity" | "state">,
): boolean => {
  const { from, to, done } = STATE_CHANGES[change]
  if (state === to) return false
  if (state === from) return true
  throw new BerthError("backend.wrong_state", `a sandbox that is ${state} cannot be ${done}`, {
    details: { sandbox, state, needed: from },
  })
}
