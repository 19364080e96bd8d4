import { join } from "node:path"
import type { Backend } from "@berth/backends/backend"
import type { PullProgress } from "@berth/backends/docker/images"
import type { OnFence } from "@berth/backends/fence-watch"
import type { EngineAddress } from "@berth/local/config/engine-address"
import { refuseForeignEntry } from "@berth/local/owned/entry"
import type { InstallationId } from "@berth/protocol/ids"
import type { Logger } from "./logging/logger.ts"

export type BackendChoice =
  | { readonly name: "embedded" }
  | { readonly name: "docker"; readonly engine: EngineAddress; readonly image: string }

export interface BackendStart {
  /** The backend that makes the sandboxes, with its settings. */
  readonly backend: BackendChoice
  readonly installation: InstallationId
  readonly dataDir: string
  readonly log: Logger
  /** Called at steps at which tests crash. */
  readonly at?: (step: string) => void | Promise<void>
}

/** Loads and opens the backend that was chosen, and no other. */
export const openBackend = async (
  { backend, installation, dataDir, log, at = () => {} }: BackendStart,
  signal: AbortSignal,
): Promise<Backend> => {
  const directory = join(dataDir, backend.name)
  const onFence = tellOfFence(log)
  if (backend.name === "embedded") {
    const { openEmbedded } = await import("@berth/backends/embedded/backend")
    return await openEmbedded({ installation, directory, onFence }, { signal })
  }
  const { openDocker } = await import("@berth/backends/docker/backend")
  const { engine, image } = backend
  // An engine sees everything that its sandboxes get, keys and files included.
  if ("socketPath" in engine) refuseForeignEntry(engine.socketPath)
  const onPull = tellOfPulls(log)
  const options = { installation, directory, engine, image, onPull, onFence, at }
  return await openDocker(options, { signal })
}

const tellOfFence =
  (log: Logger): OnFence =>
  (news) => {
    const op = "network.fence"
    if (news.kind === "restored") {
      log.warn({ op }, "the firewall rules of sandboxes were gone; they are in place again")
    } else {
      const err = news.failure
      log.error(
        { op, err },
        "the firewall rules of sandboxes cannot be checked or restored; trying again",
      )
    }
  }

/** Logs each tenth of a pull: it may take minutes. */
const tellOfPulls = (log: Logger) => {
  let said = ""
  return ({ image, bytesDone, bytesTotal }: PullProgress) => {
    const progress = `${image} ${Math.floor((10 * bytesDone) / bytesTotal)}0 %`
    if (progress === said) return
    said = progress
    log.info({ op: "image.pull", progress }, `image.pull: ${progress}`)
  }
}
