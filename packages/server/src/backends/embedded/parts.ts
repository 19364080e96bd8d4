import type { FstabEntry } from "../../host/mounts/fstab.ts"
import type { MountCommand } from "../../host/mounts/trial.ts"
import type { Architecture } from "../seccomp/profile.ts"
import type { Apart } from "./apart.ts"
import type { Caches } from "./caches.ts"
import type { Cgroups } from "./cgroups/cgroups.ts"
import type { Launchers } from "./conmon.ts"
import type { IdMapping, NoIdMapping } from "./ids/mapping.ts"
import type { IdRanges } from "./ids/ranges.ts"
import type { SandboxIdSource } from "./ids/sandbox-ids.ts"
import type { SandboxNetwork } from "./network/network.ts"
import type { Runtime } from "./runtime.ts"
import type { CompiledFilter } from "./seccomp/compiled.ts"
import type { StateDirectory } from "./state.ts"
import type { Systems } from "./system/systems.ts"
import type { Tools } from "./tools.ts"

/** What sandboxes are made from, put together once. */
export interface Parts {
  readonly states: StateDirectory
  readonly tools: Tools
  readonly runtime: Runtime
  readonly cgroups: Cgroups
  readonly network: SandboxNetwork
  readonly caches: Caches
  /** The range of the installation's files on disk begins there. */
  readonly idBase: number
  readonly idRanges: IdRanges
  readonly idMapping: IdMapping | NoIdMapping
  /** Mounts in the place of mount(8); undefined where the host has no perl. */
  readonly mount: MountCommand | undefined
  readonly sandboxIds: SandboxIdSource
  /** Everything of this backend lies below it. */
  readonly directory: string
  readonly systems: Systems
  readonly apart: Apart
  /** Where a system tree is mounted for the runtime alone, to become the sandbox's root. */
  readonly rootPlace: string
  readonly filter: CompiledFilter
  readonly launchers: Launchers
  /** What is mounted for the runtime alone, whatever the sandbox. */
  readonly runtimeMounts: readonly FstabEntry[]
  readonly architecture: Architecture
  /** What the server's own process may open: a sandbox cannot have more. */
  readonly maxOpenFiles: number
  /** Passed before each step that a crash could interrupt. */
  at(step: string): Promise<void>
}
