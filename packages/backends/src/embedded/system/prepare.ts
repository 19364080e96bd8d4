import { BerthError } from "@berth/protocol/errors"
import type { SystemIdentity } from "@berth/protocol/sandbox"
import { isWithin } from "../../within.ts"
import { asBackendError } from "./files-error.ts"
import { hostPlan } from "./host.ts"
import { PRIVATE_DIRECTORIES, PRIVATE_TMPFS } from "./places.ts"
import type { PreparedSystem } from "./prepared.ts"
import { rootfsPlan } from "./rootfs.ts"
import { writeSkeleton } from "./skeleton.ts"
import type { SystemPlan } from "./tree.ts"

export interface SystemOptions {
  readonly identity: SystemIdentity
  /** The directory in which the roots are kept. It is Berth's own. */
  readonly directory: string
  /** The host's tini; for a rootfs without glibc, a static one. */
  readonly init: string
  /** The targets of the config's mounts inside. */
  readonly mountTargets: readonly string[]
}

/** Makes or finds a root directory for sandboxes on this system. */
export const prepareSystem = async (
  { identity, directory, init, mountTargets }: SystemOptions,
  signal: AbortSignal,
): Promise<PreparedSystem> => {
  // Mount points in the sandbox's own directories are made there, for that sandbox.
  const mountPoints = mountTargets.filter(
    (target) => ![...PRIVATE_DIRECTORIES, ...PRIVATE_TMPFS].some((own) => isWithin(target, own)),
  )
  const plan = planOf(identity, { directory, init, mountPoints })
  return writeSkeleton(plan, directory, signal)
}

const planOf = (
  identity: SystemIdentity,
  options: { directory: string; init: string; mountPoints: readonly string[] },
): SystemPlan => {
  try {
    switch (identity.kind) {
      case "host":
        return hostPlan(options)
      case "rootfs":
        return rootfsPlan({ ...options, path: identity.path })
      case "image":
        throw new BerthError("backend.unsupported", "the embedded backend has no images", {
          details: { digest: identity.digest, instead: ["host", "rootfs"] },
        })
    }
  } catch (thrown) {
    throw asBackendError(thrown, "reading the system")
  }
}
