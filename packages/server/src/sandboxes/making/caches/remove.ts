import type { Backend } from "@berth/backends/backend"
import type { Slug } from "@berth/protocol/ids"

/** Removes the caches of a workspace that was removed. */
export const removeCaches = async (
  backend: Pick<Backend, "listCaches" | "removeCache">,
  workspace: Slug,
): Promise<void> => {
  const own = (await backend.listCaches()).filter((found) => found.workspace === workspace)
  await Promise.all(own.map(({ cache }) => backend.removeCache(workspace, cache)))
}
