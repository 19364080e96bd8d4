import type { Readable } from "node:stream"
import { timeoutSignal } from "@berth/host/timeout-signal"
import type { InstallationId } from "@berth/protocol/ids"
import { z } from "zod"
import { removeContainer } from "../engine/containers.ts"
import type { Engine } from "../engine/engine.ts"
import { INSTALLATION_LABEL } from "../engine/names.ts"

/** A shelf is a container that never runs: through it, files get into volumes. */
export interface Shelf {
  /** Unpacks an archive below the directory that holds the volumes. */
  put(archive: Buffer | Readable, signal: AbortSignal): Promise<void>
  has(path: string, signal: AbortSignal): Promise<boolean>
}

/** The directory in which a shelf has its volumes, each in a directory of its own. */
const ROOT = "/shelf"
/** A shelf is removed under its own deadline, since the caller may have given up. */
const REMOVE_DEADLINE_MS = 10_000

export interface ShelfOptions {
  readonly installation: InstallationId
  /** Any image that the engine has: nothing of it is run. */
  readonly image: string
  /** The volumes, by the names of their directories. */
  readonly volumes: Readonly<Record<string, string>>
}

/**
 * Makes a shelf for the time of one call. Its labels name no sandbox, so `repair` removes a shelf that a crash leaves.
 */
export const withShelf = async <Result>(
  engine: Engine,
  { installation, image, volumes }: ShelfOptions,
  use: (shelf: Shelf) => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> => {
  const Mounts = Object.entries(volumes).map(([name, Source]) => ({
    Type: "volume",
    Source,
    Target: `${ROOT}/${name}`,
    VolumeOptions: { NoCopy: true },
  }))
  const body = {
    Image: image,
    Entrypoint: ["/never-run"],
    Labels: { [INSTALLATION_LABEL]: installation },
    HostConfig: { NetworkMode: "none", Mounts },
  }
  const request = { method: "POST", path: "/containers/create", body } as const
  const { Id } = await engine.read(request, z.object({ Id: z.string() }), signal)
  const path = `/containers/${Id}/archive`
  try {
    return await use({
      put: async (file, within) => {
        await engine.ask({ method: "PUT", path, query: { path: ROOT }, file }, [200], within)
      },
      has: async (name, within) => {
        const query = { path: `${ROOT}/${name}` }
        return (
          (await engine.ask({ method: "HEAD", path, query }, [200, 404], within)).status === 200
        )
      },
    })
  } finally {
    await removeContainer(engine, Id, timeoutSignal(REMOVE_DEADLINE_MS))
  }
}
