import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"

/** The error for work with a sandbox that stands still because of the disk. */
export const halted = (sandbox: SandboxId, reason: string): BerthError =>
  new BerthError("sandbox.halted", `${sandbox} is halted: ${reason}`, {
    details: { sandbox, reason },
  })
