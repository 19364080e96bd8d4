import type { SandboxId } from "@berth/protocol/ids"
import type { Rows } from "../state/rows.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Idle } from "../use/idle.ts"
import type { ConnectionParts } from "./connection.ts"

export interface BootEndsParts {
  readonly rows: Pick<Rows, "get" | "move">
  readonly workspaces: Pick<Workspaces, "booted" | "bootFailed">
  readonly idle: Pick<Idle, "begin">
  readonly wake: (sandbox: SandboxId) => void
}

/** Stores how the boot of a sandbox ended, as its supervisor tells it, and has the sandbox looked at. */
export const openBootEnds =
  ({ rows, workspaces, idle, wake }: BootEndsParts): ConnectionParts["onBootOver"] =>
  async (sandbox, { readyAtMs, ending }) => {
    idle.begin(sandbox)
    const row = await rows.get(sandbox)
    if (row === undefined) return
    if (readyAtMs !== null) {
      await workspaces.booted(row.workspace)
      await rows.move(sandbox, ["creating", "booting"], "ready")
    } else if (row.phase !== "stopping" && row.phase !== "gone") {
      const why = ending === null ? "it ended early" : `${ending.step ?? "boot"}: ${ending.reason}`
      await workspaces.bootFailed(row.workspace, row.configHash, why)
      // A sandbox that was asked to stop is about to exit; one in which a step failed stays up.
      if (ending !== null && ending.step !== null)
        await rows.move(sandbox, ["creating", "booting", "draining"], "failed")
    }
    wake(sandbox)
  }
