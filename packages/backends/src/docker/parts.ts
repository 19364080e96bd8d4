import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { Caches } from "./caches.ts"
import type { Directories } from "./directories.ts"
import type { Engine } from "./engine/engine.ts"
import type { Far } from "./far/far.ts"
import type { ImageSystems } from "./image-systems.ts"
import type { EngineInfo } from "./info.ts"
import type { MountVolumes } from "./mount-volumes.ts"
import type { SandboxNetwork } from "./network/network.ts"

/** The parts that all operations share, put together once. */
export interface Parts {
  readonly installation: InstallationId
  readonly engine: Engine
  /** The engine's info from when it was last connected to. */
  readonly info: () => EngineInfo
  readonly directories: Directories
  readonly caches: Caches
  readonly systems: ImageSystems
  readonly network: SandboxNetwork
  /** The differences of an engine elsewhere; undefined for one on this host. */
  readonly far: Far | undefined
  /** Directories that no mount may hold or lie in: Berth's own data. */
  readonly keepOut: readonly string[]
  readonly mountVolumes: MountVolumes
  /** Sandboxes that this server has started since the engine was last away: so the engine knows what runs in them. */
  readonly started: Set<SandboxId>
  /** The sandboxes that are being stopped or removed. */
  readonly leaving: Set<SandboxId>
  /** Called with each step after which a crash must do no harm: tests crash there. */
  readonly at: (step: string) => void | Promise<void>
}
