import type { BackendDescription } from "@berth/backends/backend"
import { type Serially, serialByKey } from "@berth/host/serial"
import type { Shortage } from "@berth/host/shortage"
import type { Layers } from "@berth/layers/layers"
import { openHostCertificates } from "../certificates/host-certificates.ts"
import type { Store } from "../store/open.ts"
import type { Policy } from "./deciding/decide.ts"
import { type LookParts, look } from "./deciding/look.ts"
import { openDeciding } from "./deciding/open.ts"
import { Passes } from "./deciding/passes.ts"
import { openPressure, type Pressure } from "./deciding/pressure.ts"
import { openWorkers, type Workers } from "./deciding/workers.ts"
import type { Guard } from "./disk/guard.ts"
import { type DiskParts, openDisk } from "./disk/open.ts"
import { NO_RESCUE, type Rescue } from "./disk/rescue.ts"
import { type FilesRoom, openFilesRoom } from "./files/open.ts"
import type { Bridges } from "./keeping/bridges.ts"
import type { ConnectionParts } from "./keeping/connection.ts"
import { isBooting, type Keeping, openKeeping } from "./keeping/open.ts"
import {
  type DesiredConfigs,
  type DesiredConfigsParts,
  openDesiredConfigs,
  type ToolboxOf,
} from "./making/desired-configs.ts"
import type { LaunchParts } from "./making/launch.ts"
import { openMake } from "./making/make.ts"
import { type Ensure, openEnsure } from "./requests/ensure.ts"
import { openReplace } from "./requests/replace.ts"
import type { Clock } from "./state/clock.ts"
import { openState, type State } from "./state/open.ts"
import type { Records } from "./state/records.ts"
import { Idle } from "./use/idle.ts"
import { type Leases, openLeases } from "./use/leases.ts"
import { openOnFree } from "./use/on-free.ts"

export interface SandboxesParts
  extends Omit<ConnectionParts, "onBootOver" | "onDown" | "onUp">,
    LaunchParts {
  readonly records: Records
  readonly store: Pick<Store, "db">
  readonly layers: Layers
  readonly bridges: Bridges
  /** The toolbox that new sandboxes get: found or built when the first is made. */
  readonly toolbox: ToolboxOf
  readonly policy: Policy
  readonly clock: Clock
  /** The authorities that the host trusts beside the usual ones. Default: as its files say. */
  readonly certificates?: DesiredConfigsParts["certificates"]
  /** Reads the resources of the host that run low. */
  readonly shortage: Shortage
  /** The guard that keeps sandboxes from filling the disk, where that is watched. */
  readonly disk?: DiskParts
}

/** The rooms that a look at a sandbox rests on. */
interface LowerRooms extends State {
  readonly description: BackendDescription
  /** Runs one operation at a time for each workspace. */
  readonly serially: Serially
  readonly workers: Workers
  readonly idle: Idle
  readonly leases: Leases
  readonly keeping: Keeping
  readonly guard: Guard
  readonly rescue: Rescue
  readonly files: FilesRoom
  readonly desiredConfigs: DesiredConfigs
  readonly pressure: Pressure
  /** Workers look at sandboxes from this call on. */
  readonly lookWith: (looking: LookParts) => void
}

/** All rooms, joined: calls of people and programs are answered from them. */
export interface Rooms extends Omit<SandboxesParts, keyof State>, LowerRooms {
  readonly ensure: Ensure
  readonly looking: LookParts
  readonly passes: Passes
  /** Fires when the server stops. */
  readonly over: AbortSignal
  close(): Promise<void>
}

/** Opens the rooms of this folder and joins them. */
export const openRooms = async (parts: SandboxesParts): Promise<Rooms> => {
  const below = await openLowerRooms(parts)
  const { keeping, workers, guard, files, pressure } = below
  const over = new AbortController()
  const make = openMake({ ...parts, ...below, ...keeping, files: files.files, wake: workers.wake })
  const ensure = openEnsure({
    ...below,
    make,
    admit: pressure.admit,
    wake: workers.wake,
    settle: workers.settle,
    isBooting: (sandbox) => isBooting(keeping, sandbox),
    bootOf: (sandbox) => keeping.connections.get(sandbox)?.boot,
  })
  const looking = openDeciding({
    ...parts,
    ...below,
    ...keeping,
    canPause: below.description.pause,
    files: files.files,
    replace: openReplace({ ensure, log: parts.log, signal: over.signal }),
  })
  below.lookWith(looking)
  const passes = new Passes({ ...parts, ...below, ...keeping, ...files })
  const close = async (): Promise<void> => {
    over.abort()
    const passed = passes.close()
    keeping.activities.close()
    below.leases.close()
    // Callers that wait for a sandbox to settle end with the workers.
    const ends = [workers.close(), pressure.close(), guard.close(), files.flattening.close()]
    await Promise.all(ends)
    await keeping.connections.close()
    await passed
  }
  return { ...parts, ...below, ensure, looking, passes, over: over.signal, close }
}

const openLowerRooms = async (parts: SandboxesParts): Promise<LowerRooms> => {
  const { backend, policy, log } = parts
  const description = await backend.describe()
  const state = openState(parts)
  const { clock } = state
  const serially = serialByKey()
  let looking: LookParts | undefined
  const workers = openWorkers({
    look: async (sandbox, before) => await look(opened(looking), sandbox, before),
    onFailure: (sandbox, err, againInMs) =>
      log.warn(
        { op: "sandbox.look", sandbox, againInMs, err },
        "looking at a sandbox failed; retrying",
      ),
  })
  const { wake } = workers
  const rescue = parts.disk?.rescue ?? NO_RESCUE
  const idle = new Idle(clock)
  const onFree = openOnFree({ ...state, idle, workers, log, pauseAfterMs: policy.pauseAfterMs })
  const leases = await openLeases({ db: parts.store.db, clock, onFree })
  const keeping = openKeeping({ ...parts, ...state, idle, leases, wake })
  const guard = await openDisk({
    ...parts,
    ...state,
    wake,
    tell: (sandbox, message) => parts.events.tell(sandbox, [{ type: "warning", message }]),
  })
  const files = openFilesRoom({
    ...parts,
    ...state,
    hasLayers: description.layers,
    leases,
    serially,
    keepLeftMs: policy.quarantineMs,
    wake,
    held: (sandbox) => guard.held(sandbox),
    haltOf: (sandbox) => guard.why(sandbox),
    rescue,
    onThaw: () => void guard.look().catch(() => {}),
  })
  return {
    ...state,
    description,
    serially,
    workers,
    idle,
    leases,
    keeping,
    guard,
    rescue,
    files,
    desiredConfigs: openDesiredConfigs({
      ...parts,
      ...state,
      certificates: parts.certificates ?? openHostCertificates(parts),
    }),
    pressure: openPressure({ ...parts, ...state, leases, idle, workers }),
    lookWith: (parts: LookParts) => {
      looking = parts
    },
  }
}

const opened = (looking: LookParts | undefined): LookParts => {
  if (looking === undefined) throw new Error("a sandbox is looked at before the rooms are open")
  return looking
}
