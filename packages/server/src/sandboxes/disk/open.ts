import type { Backend, EngineState } from "@berth/backends/backend"
import type { Reserve } from "@berth/host/reserve"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { State } from "../state/open.ts"
import { USABLE_PHASES } from "../state/phases.ts"
import { type Guard, type GuardParts, NO_GUARD, openGuard } from "./guard.ts"
import { type Metered, openMeter } from "./meter.ts"
import { openRemembered } from "./remembered.ts"
import type { Rescue } from "./rescue.ts"
import { measurePatiently, measureUsage, type UsageParts } from "./usage.ts"

export interface DiskParts {
  readonly dataDir: string
  readonly reserve: Reserve
  readonly rescue: Rescue
  /** The disk limit of a workspace that sets none; undefined: no limit. */
  readonly defaultBytes?: number | undefined
}

export interface OpenDiskParts extends State {
  /** Undefined where nobody watches the disk. */
  readonly disk?: DiskParts
  readonly backend: Backend
  readonly log: Logger
  readonly wake: (sandbox: SandboxId) => void
  readonly tell: GuardParts["tell"]
}

/** Opens the guard of the disk that the sandboxes of this installation fill. */
export const openDisk = async (parts: OpenDiskParts): Promise<Guard> => {
  const { disk, backend, clock, log, transients, wake, tell } = parts
  if (disk === undefined) return NO_GUARD
  const { dataDir, rescue } = disk
  const usage: UsageParts = {
    dataDir,
    caches: () => backend.listCaches(),
    pidsOf: (sandboxes) => rescue.pidsOf(sandboxes),
  }
  const remembered = openRemembered(dataDir)
  const meter = openMeter({
    remembered: await remembered.read(),
    save: remembered.save,
    measure: (sandboxes, signal) => measurePatiently(usage, sandboxes, signal),
    onMeasured: () => void guard.look(),
    clock,
    log,
  })
  const guard = openGuard({
    ...disk,
    meter,
    clock,
    log,
    copied: () => transients.copied(),
    wake,
    bounded: () => boundedSandboxes(parts, disk.defaultBytes),
    list: async () => (await backend.list()).filter(({ state }) => hasProcesses(state)),
    isThere: async (sandbox) => (await backend.inspect(sandbox)) !== undefined,
    measure: (sandboxes, what, signal) => measureUsage(usage, sandboxes, what, signal),
    tell,
  })
  return guard
}

/** The sandboxes that can be used, with their disk limits. */
const boundedSandboxes = async (
  { rows, workspaces }: State,
  defaultBytes: number | undefined,
): Promise<Metered[]> => {
  const [known, limits] = await Promise.all([rows.list(), workspaces.diskLimits()])
  return known
    .filter(({ phase }) => USABLE_PHASES.some((usable) => usable === phase))
    .map(({ id: sandbox, workspace }) => {
      const { diskBytes: bytes = defaultBytes, diskInodes: inodes } = limits.get(workspace) ?? {}
      return { sandbox, workspace, allowance: { bytes, inodes } }
    })
}

const hasProcesses = (state: EngineState): boolean => state === "running" || state === "paused"
