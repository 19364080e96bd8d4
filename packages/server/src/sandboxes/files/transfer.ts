import type { Writable } from "node:stream"
import type { Shortage } from "@berth/host/shortage"
import { BerthError } from "@berth/protocol/errors"
import type { Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Logger } from "../../logging/logger.ts"
import { operation } from "../../logging/operation.ts"
import type { Rows } from "../state/rows.ts"
import { unknownWorkspace } from "../state/unknown.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { WorkspaceFiles } from "./files.ts"
import type { Freeze } from "./freezing.ts"
import type { Newcomers } from "./newcomers.ts"

export interface TransferParts {
  readonly rows: Pick<Rows, "ofWorkspace">
  readonly workspaces: Workspaces
  readonly files: WorkspaceFiles
  readonly freeze: Freeze
  readonly newcomers: Newcomers
  readonly shortage: Shortage
  /** Whether there are files of that name that nobody owns. */
  readonly areLeft: (workspace: Slug) => Promise<boolean>
  readonly log: Logger
}

/** Exports the files of workspaces to other installations, and imports theirs. */
export interface Transfer {
  /** Writes the files of a workspace as they are at one moment. */
  exportTo(workspace: Slug, to: Writable, signal: AbortSignal): Promise<void>
  /** Makes a workspace on the files of an archive, which may come from anybody. */
  importFrom(workspace: Slug, from: AsyncIterable<Buffer>, signal: AbortSignal): Promise<void>
}

export const openTransfer = (parts: TransferParts): Transfer => {
  const { rows, workspaces, files, freeze, newcomers, log } = parts

  /** Refuses an import that could fill the disk of running sandboxes. */
  const assertRoom = async (): Promise<void> => {
    const lack = await parts.shortage("out")
    if (lack?.of !== "disk") return
    throw new BerthError("layers.disk_full", `there is no room for the import: ${lack.words}`)
  }

  return {
    exportTo: async (workspace, to, signal) => {
      const known = await workspaces.get(workspace)
      // Files that no workspace owns can be exported, to save them.
      if (known === undefined && !(await parts.areLeft(workspace)))
        throw unknownWorkspace(workspace)
      files.assertHere(workspace, "exported")
      await operation(log, "workspace.export", { workspace }, async () => {
        const [latest] = await rows.ofWorkspace(workspace)
        const lease = { source: "export", subject: workspace, holder: "an export" } as const
        const how = { workspace, sandbox: latest?.id, lease, signal, onProgress: () => {} }
        const frozen = await freeze(how)
        try {
          await files.export(frozen, to, { isBooted: known?.isBooted ?? false, signal })
        } finally {
          await frozen.end()
        }
      })
    },
    importFrom: async (workspace, from, signal) => {
      files.assertHere(workspace, "imported")
      // An archive says nothing about how its sandbox is made: the importer does, with the next `up`.
      const spec = WorkspaceSpec.parse({ slug: workspace })
      await operation(log, "workspace.import", { workspace }, () =>
        newcomers.make({ spec, isBooted: false }, async () => {
          if (await files.import(workspace, from, { signal, assertRoom }))
            await workspaces.booted(workspace)
        }),
      )
    },
  }
}
