import { mountNamespaces } from "@berth/host/mount-namespaces"
import type { TopId } from "@berth/protocol/ids"

/**
 * The processes that have a top mounted, as the kernel tells it: one for each mount namespace. A top's id is random, so
 * a namespace that names it in its mounts has it.
 */
export const mountedBy = async (top: TopId): Promise<readonly number[]> =>
  (await mountNamespaces()).filter(({ mounts }) => mounts.includes(top)).map(({ pid }) => pid)
