import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Rows } from "../state/rows.ts"
import type { Idle } from "./idle.ts"

export interface OnFreeParts {
  readonly rows: Pick<Rows, "get">
  readonly idle: Pick<Idle, "begin">
  readonly workers: {
    wake(sandbox: SandboxId): void
    wakeIn(sandbox: SandboxId, ms: number): void
  }
  /** A sandbox is paused after it was unused for this long; null: never. */
  readonly pauseAfterMs: number | null
  readonly log: Logger
}

/** Begins the idle time of a sandbox whose last lease has ended, and has it looked at. */
export const openOnFree = ({ rows, idle, workers, pauseAfterMs, log }: OnFreeParts) => {
  const begin = async (sandbox: SandboxId): Promise<void> => {
    idle.begin(sandbox)
    const isReady = (await rows.get(sandbox))?.phase === "ready"
    // A sandbox that is ready need not be looked at until it has been idle for a while.
    if (isReady && pauseAfterMs !== null) workers.wakeIn(sandbox, pauseAfterMs)
    else workers.wake(sandbox)
  }
  return (sandbox: SandboxId): void => {
    begin(sandbox).catch((err: unknown) => {
      log.warn(
        { op: "lease.release", sandbox, err },
        "a freed sandbox cannot be looked at; the next pass does",
      )
    })
  }
}
