import { timeoutSignal } from "@berth/host/timeout-signal"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Rescue } from "../disk/rescue.ts"
import { type ForkCall, openFork } from "../files/fork.ts"
import { openTransfer, type Transfer, type TransferParts } from "../files/transfer.ts"
import type { Departures } from "../state/departures.ts"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { Transients } from "../state/transients.ts"
import type { Ensure, Ensured } from "./ensure.ts"
import type { Names } from "./names.ts"

/** How long a failed fork or import waits for what there was of its sandbox to be removed. */
const REMOVE_FIRST_MS = 10_000

export interface CopiesParts extends Omit<TransferParts, "rows" | "areLeft"> {
  readonly rows: Rows
  readonly filesLeft: { readonly areLeft: TransferParts["areLeft"] }
  readonly transients: Pick<Transients, "get">
  readonly departures: Pick<Departures, "of">
  readonly rescue: Pick<Rescue, "run">
  readonly names: Pick<Names, "current">
  readonly ensure: Ensure
  readonly wake: (sandbox: SandboxId) => void
  readonly removeWorkspace: (workspace: Slug) => Promise<void>
  /** Rejects where the host has no room for another sandbox. */
  readonly admit: () => Promise<void>
  readonly log: Logger
}

export interface Forked extends Ensured {
  /** How long the sandbox whose files were copied stood still. */
  readonly frozenMs: number
}

/** Workspaces that are made on copies of files. */
export interface Copies {
  /** Makes another workspace like this sandbox's, on a copy of its files, with a sandbox of its own. */
  fork(sandbox: SandboxId, to: Slug, call: ForkCall): Promise<Forked>
  exportTo: Transfer["exportTo"]
  /** Makes a workspace on an archive's files, with a sandbox. Resolves when it has started; it boots on. */
  importFrom(...call: Parameters<Transfer["importFrom"]>): Promise<Ensured>
}

export const openCopies = (parts: CopiesParts): Copies => {
  const { rows, transients, departures, names, ensure, rescue, admit, log } = parts
  const fork = openFork(parts)
  const transfer = openTransfer({ ...parts, areLeft: parts.filesLeft.areLeft })

  /**
   * Removes the workspace of a fork or an import whose first sandbox was not made, when nothing is left of that sandbox.
   * A workspace that somebody else uses by now stays.
   */
  const removeFirst = async (workspace: Slug): Promise<void> => {
    const signal = timeoutSignal(REMOVE_FIRST_MS)
    const begun = await rows.ofWorkspace(workspace)
    const hasFailed = ({ id, phase }: SandboxRow) =>
      phase === "stopping" || (phase === "creating" && !transients.get(id).isBeingMade)
    if (!begun.every(hasFailed)) return
    for (const { id } of begun) {
      // On a full disk, the failure itself was not noted.
      await rows.beginStopRegardless(id, { cause: "ended", reason: "it could not be made" })
      parts.wake(id)
      await departures.of(id, signal)
    }
    await parts.removeWorkspace(workspace)
  }

  /**
   * Makes the first sandbox. If that fails (a person cancels it, its image cannot be had, or a disk is full), nothing of
   * the workspace is left.
   */
  const ensureFirst = async (workspace: Slug, signal: AbortSignal): Promise<Ensured> => {
    try {
      return await ensure(workspace, { mode: "fresh", isRequested: true }, signal)
    } catch (thrown) {
      await rescue
        .run(() => removeFirst(workspace))
        .catch((err: unknown) => {
          log.warn(
            { op: "workspace.remove", workspace, err },
            "an unfinished workspace cannot be removed now; the next pass tries again",
          )
        })
      throw thrown
    }
  }

  return {
    fork: async (asked, to, call) => {
      // A fork that there is no room for is refused before anything is copied.
      await admit()
      const frozenMs = await fork(await names.current(asked), to, call)
      call.onProgress({ stage: "starting", files: 0, of: 0 })
      return { ...(await ensureFirst(to, call.signal)), frozenMs }
    },
    exportTo: transfer.exportTo,
    importFrom: async (workspace, from, signal) => {
      // An import that there is no room for is refused before anything is read.
      await admit()
      await transfer.importFrom(workspace, from, signal)
      return await ensureFirst(workspace, signal)
    },
  }
}
