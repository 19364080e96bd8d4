import { isDeepStrictEqual } from "node:util"
import type { Backend } from "@berth/backends/backend"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Guard } from "../disk/guard.ts"
import type { Rescue } from "../disk/rescue.ts"
import type { WorkspaceFiles } from "../files/files.ts"
import type { Bridges } from "../keeping/bridges.ts"
import type { SandboxEvents } from "../keeping/connection.ts"
import { isBooting, type Keeping } from "../keeping/open.ts"
import type { DesiredConfigs } from "../making/desired-configs.ts"
import type { FailPoint } from "../state/fail-point.ts"
import type { State } from "../state/open.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { Idle } from "../use/idle.ts"
import type { Leases } from "../use/leases.ts"
import type { Policy } from "./decide.ts"
import { openEffects } from "./effects.ts"
import type { LookParts } from "./look.ts"

export interface DecidingParts extends State, Keeping {
  readonly backend: Backend
  readonly canPause: boolean
  readonly files: WorkspaceFiles
  readonly desiredConfigs: DesiredConfigs
  readonly leases: Leases
  readonly idle: Idle
  readonly bridges: Bridges
  readonly events: SandboxEvents
  readonly guard: Pick<Guard, "held" | "why">
  readonly rescue: Rescue
  readonly policy: Policy
  readonly log: Logger
  readonly at: FailPoint
  /** Makes the successor of a drained sandbox. */
  readonly replace: (drained: SandboxRow) => Promise<void>
}

/** The facts that decisions rest on, and the effects that they have. */
export const openDeciding = (parts: DecidingParts): LookParts => {
  const { workspaces, records, departures, transients, idle, guard, desiredConfigs } = parts
  const effects = openEffects({
    ...parts,
    isHeld: (sandbox) => guard.held(sandbox) !== undefined,
    onGone: (row) => {
      idle.forget(row.id)
      departures.tell(row.id)
      if (row.stop?.cause === "drained") void parts.replace(row)
    },
  })
  const isBootingNow = (sandbox: SandboxId) => isBooting(parts, sandbox)
  /** Whether a person described the workspace differently since the sandbox was made. Holds after a restart, too. */
  const isDescribedAnew = async ({ id, workspace }: SandboxRow): Promise<boolean> => {
    const [made, wanted] = await Promise.all([
      records.read(id).catch(() => undefined),
      workspaces.get(workspace),
    ])
    return made !== undefined && !isDeepStrictEqual(made.workspace, wanted?.spec)
  }
  return {
    ...parts,
    effects,
    isBooting: isBootingNow,
    isBeingMade: (sandbox) => transients.isReserved(sandbox),
    // The time of a boot does not count as idle: nobody can use the sandbox before.
    idleMs: (sandbox) => (isBootingNow(sandbox) ? 0 : idle.ms(sandbox)),
    pressure: (sandbox) => transients.get(sandbox).pressure,
    halted: (sandbox) => guard.why(sandbox),
    desiredHash: (row) => desiredConfigs.known(row.workspace),
    bootFailure: async ({ workspace }) => (await workspaces.get(workspace))?.failed?.why,
    isSuccessorAsked: async (row) =>
      transients.get(row.id).isSuccessorAsked || (await isDescribedAnew(row)),
  }
}
