import type { Logger } from "../../logging/logger.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { Ensure } from "./ensure.ts"

export interface ReplaceParts {
  readonly ensure: Ensure
  readonly log: Logger
  /** Fires when the server stops. */
  readonly signal: AbortSignal
}

/** Makes the successor of a drained sandbox, so that the workspace's users find it there. */
export const openReplace =
  ({ ensure, log, signal }: ReplaceParts) =>
  async ({ workspace }: Pick<SandboxRow, "workspace">): Promise<void> => {
    try {
      await ensure(workspace, { mode: "fresh", isRequested: false }, signal)
    } catch (err) {
      if (!signal.aborted)
        log.warn(
          { op: "sandbox.replace", workspace, err },
          "a drained sandbox cannot be replaced now; its successor is made at the next use",
        )
    }
  }
