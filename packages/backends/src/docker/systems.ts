import { BerthError } from "@berth/protocol/errors"
import type { SystemIdentity } from "@berth/protocol/sandbox"
import type { SystemSource } from "@berth/protocol/workspace"
import type { Images } from "./images.ts"

export type SystemOf = (source: SystemSource, signal: AbortSignal) => Promise<SystemIdentity>

/** Resolves systems to images: a workspace that is content with the host's system gets the default one. */
export const systemsFrom =
  (images: Images, standard: string): SystemOf =>
  async (source, signal) => {
    if (source.kind === "rootfs")
      throw new BerthError("backend.unsupported", "sandboxes are made from images alone here", {
        details: { path: "system", given: source.path, supported: ["image"] },
      })
    const reference = source.kind === "image" ? source.reference : standard
    return { kind: "image", digest: await images.digestOf(reference, signal) }
  }
