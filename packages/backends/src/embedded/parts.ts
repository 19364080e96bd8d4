import type { FstabEntry } from "@berth/host/mounts/fstab"
import type { MountCommand } from "@berth/host/mounts/trial"
import type { Architecture } from "../seccomp/profile.ts"
import type { Apart } from "./apart.ts"
import type { Caches } from "./caches.ts"
import type { Cgroups } from "./cgroups/cgroups.ts"
import type { Launchers } from "./conmon.ts"
import type { Exits } from "./exits.ts"
import type { IdMapping, NoIdMapping } from "./ids/mapping.ts"
import type { IdRanges } from "./ids/ranges.ts"
import type { SandboxIdSource } from "./ids/sandbox-ids.ts"
import type { SandboxNetwork } from "./network/network.ts"
import type { Reclaims } from "./reclaims.ts"
import type { Runtime } from "./runtime.ts"
import type { CompiledFilter } from "./seccomp/compiled.ts"
import type { StateDirectory } from "./state.ts"
import type { Systems } from "./system/systems.ts"
import type { Tools } from "./tools.ts"

/** The parts that all operations share, put together once. */
export interface Parts {
  readonly states: StateDirectory
  readonly exits: Exits
  readonly tools: Tools
  readonly runtime: Runtime
  readonly cgroups: Cgroups
  readonly reclaims: Reclaims
  readonly network: SandboxNetwork
  readonly caches: Caches
  /** The first id of the range that the installation's files have on disk. */
  readonly idBase: number
  readonly idRanges: IdRanges
  readonly idMapping: IdMapping | NoIdMapping
  /** A command in the place of mount(8); undefined where the host has no perl. */
  readonly mount: MountCommand | undefined
  readonly sandboxIds: SandboxIdSource
  /** The directory of all of this backend's files. */
  readonly directory: string
  readonly systems: Systems
  readonly apart: Apart
  /** The path at which a system tree is mounted for the runtime alone, to become the sandbox's root. */
  readonly rootPlace: string
  readonly filter: CompiledFilter
  readonly launchers: Launchers
  /** Mounts that only the runtime sees, the same for every sandbox. */
  readonly runtimeMounts: readonly FstabEntry[]
  readonly architecture: Architecture
  /** The limit of the server's own process: a sandbox cannot have more. */
  readonly maxOpenFiles: number
  /** Called before each step that a crash could interrupt. */
  at(step: string): Promise<void>
}
