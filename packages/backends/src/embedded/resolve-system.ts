import { BerthError } from "@berth/protocol/errors"
import type { SystemIdentity } from "@berth/protocol/sandbox"
import type { SystemSource } from "@berth/protocol/workspace"
import { openContents } from "./system/contents.ts"

/** Resolves systems of this host to their contents. Images are for backends that have them. */
export const openSystemResolver = (): ((source: SystemSource) => Promise<SystemIdentity>) => {
  const contentsOf = openContents()
  return async (source) => {
    if (source.kind === "host") return { kind: "host", contents: contentsOf("/") }
    if (source.kind === "rootfs") return { ...source, contents: contentsOf(source.path) }
    throw new BerthError("backend.unsupported", "an image needs a backend that has images", {
      details: { path: "system", reference: source.reference, supported: ["host", "rootfs"] },
    })
  }
}
