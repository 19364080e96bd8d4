import { timeoutSignal } from "@berth/host/timeout-signal"
import type { InstallationId } from "@berth/protocol/ids"
import { type Backend, type Call, DEADLINES_MS } from "../backend.ts"
import { withinDeadline } from "../call.ts"
import type { OnFence } from "../fence-watch.ts"
import { frameBackend } from "../frame.ts"
import { openWatchers } from "../watchers.ts"
import { announcer } from "./announce.ts"
import { openCaches } from "./caches.ts"
import { openDirectories } from "./directories.ts"
import type { EngineAddress } from "./engine/address.ts"
import { openEngine } from "./engine/engine.ts"
import { asBackendError } from "./engine/failures.ts"
import { openEvents } from "./events.ts"
import { openFar } from "./far/far.ts"
import { openImageSystems } from "./image-systems.ts"
import { type OnPull, openImages } from "./images.ts"
import { readInfo } from "./info.ts"
import { openMountVolumes } from "./mount-volumes.ts"
import { createNetwork } from "./network/network.ts"
import { dockerOperations } from "./operations.ts"
import type { Parts } from "./parts.ts"
import { systemsFrom } from "./systems.ts"

export interface DockerOptions {
  readonly installation: InstallationId
  /** The directory for all files of this backend that are not in the engine. */
  readonly directory: string
  readonly engine: EngineAddress
  /** The image for workspaces that name none. */
  readonly image: string
  /** Called with the progress of an image that is being pulled. */
  readonly onPull?: OnPull
  /** Called when the fence of sandboxes was gone. */
  readonly onFence?: OnFence
  /** Called at points where tests crash. */
  readonly at?: Parts["at"]
}

/** Sandboxes as containers of a Docker engine. */
export const openDocker = async (options: DockerOptions, call: Call = {}): Promise<Backend> =>
  withinDeadline("backend.open", DEADLINES_MS.describe, call, async (signal) => {
    const { installation, directory } = options
    const engine = await openEngine(options.engine, signal)
    const directories = await openDirectories(directory)
    let info = await readInfo(engine, directory, signal)
    const far = info.local ? undefined : await openFar(engine, installation)
    const parts: Parts = {
      installation,
      engine,
      info: () => info,
      directories,
      far,
      network: createNetwork(engine, installation, { fenced: far === undefined }),
      caches: openCaches(engine, () => info, installation),
      systems: openImageSystems(engine, installation, directory),
      keepOut: [directory],
      mountVolumes: openMountVolumes(engine),
      started: new Set(),
      leaving: new Set(),
      at: options.at ?? (() => {}),
    }
    /** Reads the engine's info again: another version may run after a restart. Its place does not change. */
    const renewInfo = () => {
      const asked = readInfo(engine, directory, timeoutSignal(DEADLINES_MS.describe))
      asked.then(
        (now) => {
          info = { ...now, local: info.local }
        },
        () => {},
      )
    }
    const watchers = openWatchers()
    const announce = announcer(parts, watchers)
    const events = await openEvents(
      engine,
      installation,
      {
        onEvent: announce,
        onGap: () => {
          parts.network.forget()
          parts.started.clear()
          far?.forget()
          watchers.emit({ kind: "resync" })
          renewInfo()
          const signal = timeoutSignal(DEADLINES_MS.remove)
          // Volumes that the engine still refuses to remove are left for `repair`.
          parts.mountVolumes.removeLeft(signal).catch(() => {})
        },
      },
      signal,
    )
    const images = openImages(engine, options.onPull ?? (() => {}))
    const systemOf = systemsFrom(images, options.image)
    const close = async () => {
      far?.closeAll()
      await events.close()
    }
    return frameBackend(dockerOperations(parts, systemOf, close), {
      installation,
      watchers,
      asBackendError,
      onFence: options.onFence,
    })
  })
