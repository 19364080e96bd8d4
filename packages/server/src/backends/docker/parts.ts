import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { Caches } from "./caches.ts"
import type { Directories } from "./directories.ts"
import type { Engine } from "./engine.ts"
import type { Far } from "./far/far.ts"
import type { ImageSystems } from "./image-systems.ts"
import type { EngineInfo } from "./info.ts"
import type { MountVolumes } from "./mount-volumes.ts"
import type { SandboxNetwork } from "./network/network.ts"

/** What sandboxes are made from, put together once. */
export interface Parts {
  readonly installation: InstallationId
  readonly engine: Engine
  /** What the engine said of itself when it was last connected to. */
  readonly info: () => EngineInfo
  readonly directories: Directories
  readonly caches: Caches
  readonly systems: ImageSystems
  readonly network: SandboxNetwork
  /** Of an engine elsewhere: what is different there. */
  readonly far: Far | undefined
  /** Directories that no mount may hold or lie in: Berth's own data. */
  readonly keepOut: readonly string[]
  readonly mountVolumes: MountVolumes
  /** Sandboxes that the engine has told this server to have started, since it was last away: it knows what runs in them. */
  readonly started: Set<SandboxId>
  /** The sandboxes that are being stopped or removed. */
  readonly leaving: Set<SandboxId>
  /** Told of each step after which a crash must do no harm: tests crash there. */
  readonly at: (step: string) => void | Promise<void>
}
