import type { SandboxId } from "@berth/protocol/ids"
import type { Rows } from "../state/rows.ts"

export interface UndrainParts {
  readonly rows: Pick<Rows, "move">
  readonly isBooting: (sandbox: SandboxId) => boolean
}

/** Makes a draining sandbox current again: its config is wanted again. Returns false if it is not draining any more. */
export const undrain = ({ rows, isBooting }: UndrainParts, sandbox: SandboxId): Promise<boolean> =>
  rows.move(sandbox, ["draining"], isBooting(sandbox) ? "booting" : "ready")
