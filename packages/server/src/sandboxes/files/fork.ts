import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { ForkProgress } from "@berth/protocol/sandboxes"
import type { Logger } from "../../logging/logger.ts"
import { operation } from "../../logging/operation.ts"
import type { Rows } from "../state/rows.ts"
import { detached, unknownSandbox } from "../state/unknown.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { WorkspaceFiles } from "./files.ts"
import type { Freeze } from "./freezing.ts"
import type { Newcomers } from "./newcomers.ts"

export interface ForkParts {
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly files: WorkspaceFiles
  readonly freeze: Freeze
  readonly newcomers: Newcomers
  readonly log: Logger
}

export interface ForkCall {
  readonly signal: AbortSignal
  /** Called with the progress of the fork. */
  readonly onProgress: (progress: ForkProgress) => void
}

/** Makes another workspace like this sandbox's, on a copy of its files. Returns how long the sandbox stood still. */
export const openFork = ({ rows, workspaces, files, freeze, newcomers, log }: ForkParts) => {
  const copy = async (sandbox: SandboxId, from: Slug, to: Slug, call: ForkCall) => {
    const lease = { source: "fork", subject: to, holder: `the fork to ${to}` } as const
    const frozen = await freeze({ workspace: from, sandbox, lease, ...call })
    try {
      await files.put(to, frozen)
    } finally {
      await frozen.end()
    }
    return frozen.frozenMs
  }

  return async (sandbox: SandboxId, to: Slug, call: ForkCall): Promise<number> => {
    const row = await rows.get(sandbox)
    const workspace = row && (await workspaces.get(row.workspace))
    if (row?.isDetached && row.phase === "gone") throw detached(sandbox)
    if (row === undefined || workspace === undefined) throw unknownSandbox(sandbox)
    const from = row.workspace
    files.assertHere(from, "forked")
    const { spec, isBooted } = workspace
    return await operation(log, "workspace.fork", { sandbox, workspace: from, to }, () =>
      newcomers.make({ spec: { ...spec, slug: to }, isBooted }, () =>
        copy(sandbox, from, to, call),
      ),
    )
  }
}
