import type { BootMode } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Logger } from "../../logging/logger.ts"
import { operation } from "../../logging/operation.ts"
import type { WorkspaceFiles } from "../files/files.ts"
import { begunBoot } from "../keeping/boot-summary.ts"
import type { Connections } from "../keeping/connections.ts"
import type { Records } from "../state/records.ts"
import type { Rows } from "../state/rows.ts"
import type { Transients } from "../state/transients.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Activities } from "../use/activities.ts"
import type { DesiredConfig } from "./desired-configs.ts"
import { type LaunchParts, launch } from "./launch.ts"

export interface MakeParts extends LaunchParts {
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly records: Records
  readonly files: WorkspaceFiles
  readonly connections: Connections
  readonly activities: Activities
  /** Has the sandbox looked at. */
  readonly wake: (sandbox: SandboxId) => void
  readonly log: Logger
  readonly transients: Transients
}

export interface NewRow {
  readonly sandbox: SandboxId
  readonly spec: WorkspaceSpec
  readonly desired: DesiredConfig
  readonly mode: BootMode
}

/** Makes a sandbox, with its row first: what a crash or a failure leaves of it is found by the row, and removed. */
export const openMake = (parts: MakeParts) => {
  const { rows, workspaces, records, files, connections, activities, wake, log, transients, at } =
    parts

  const warn = async (sandbox: SandboxId, warnings: readonly string[]): Promise<void> => {
    await rows.warn(sandbox, warnings)
    for (const warning of warnings) log.warn({ op: "sandbox.create", sandbox }, warning)
  }

  const makeIt = async ({ sandbox, spec, desired, mode }: NewRow, signal: AbortSignal) => {
    const { slug: workspace } = spec
    const row = { id: sandbox, workspace, configHash: desired.hash, mode }
    if (!(await rows.insert({ ...row, phase: "creating" }))) throw notAlone(workspace)
    await at("create.inserted")
    const record = { workspace: spec, mode }
    await records.write(sandbox, record)
    await at("create.recorded")
    const overlays = await files.claim(workspace, sandbox)
    await at("create.claimed")
    const onWarnings = (warnings: readonly string[]) => warn(sandbox, warnings)
    const launched = { sandbox, workspace, desired, mode, overlays, onWarnings }
    const shared = await launch(parts, launched, signal)
    await rows.move(sandbox, ["creating"], "booting")
    await at("create.booting")
    connections.add(shared, record, begunBoot(mode))
  }

  const noteFailure = async (
    { sandbox, spec, desired }: NewRow,
    why: string,
    signal: AbortSignal,
  ) => {
    await rows.beginStopRegardless(sandbox, { cause: "ended", reason: why })
    if (!signal.aborted) await workspaces.bootFailed(spec.slug, desired.hash, why)
  }

  return (made: NewRow, signal: AbortSignal): Promise<void> => {
    const { sandbox, spec, mode } = made
    const ids = { sandbox, workspace: spec.slug, mode }
    return operation(log, "sandbox.create", ids, async () => {
      transients.change(sandbox, { isBeingMade: true })
      activities.begin(sandbox)
      try {
        await makeIt(made, signal)
      } catch (thrown) {
        const why = thrown instanceof Error ? thrown.message : String(thrown)
        await noteFailure(made, why, signal).catch((err: unknown) =>
          log.warn({ op: "sandbox.create", ...ids, err }, NOT_NOTED),
        )
        throw thrown
      } finally {
        transients.change(sandbox, { isBeingMade: false })
        wake(sandbox)
      }
    })
  }
}

/** The sandbox's worker finds by itself that there is nothing of it. */
const NOT_NOTED = "the failure of a creation could not be noted"

const notAlone = (workspace: Slug): BerthError =>
  new BerthError("backend.conflict", `${workspace} has a sandbox already`, {
    details: { workspace },
  })
