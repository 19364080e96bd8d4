import { BerthError } from "@berth/protocol/errors"
import { type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"
import {
  commitsIn,
  type HostSourceOptions,
  hostAddress,
  initialise,
  type Take,
  unbundle,
  withBundle,
} from "./host-bundle.ts"
import type { FetchedRepo } from "./host-repos.ts"
import { bringSubmodules } from "./host-submodules.ts"
import { commitOf } from "./resolve-ref.ts"
import { type Source, type Target, trackingRef } from "./target.ts"

/**
 * A repo on the host, whose missing objects the server sends as a git bundle. The refs are set from the server's
 * answer, so the names in the bundle do not matter.
 */
export const hostSource = (options: HostSourceOptions, parts: GitParts): Source => {
  return {
    clone: async (directory) => {
      const take: Take = async (fetched, path) => {
        await initialise(directory, hostAddress(parts.repo), fetched, parts)
        await unbundle(fetched, path, directory, parts)
      }
      const fetched = await withBundle(options, {}, take, parts)
      return await noteBranch(fetched, directory, parts)
    },
    fetch: async (directory) => {
      const have = await commitsIn(directory, parts)
      const take: Take = (fetched, path) => unbundle(fetched, path, directory, parts)
      const fetched = await withBundle(options, { have }, take, parts)
      return await noteBranch(fetched, directory, parts)
    },
    bringSubmodules: (directory, commit, warn) =>
      bringSubmodules(directory, { ...options, of: commit, above: [], warn }, parts),
  }
}

const noteBranch = async (
  { commit, branch }: FetchedRepo,
  cwd: string,
  parts: GitParts,
): Promise<Target> => {
  if ((await commitOf(commit, cwd, parts)) === undefined)
    throw new BerthError("repo.git_failed", `the bundle of ${parts.repo} lacks its commit`, {
      details: { repo: parts.repo, commit },
    })
  if (branch !== undefined) {
    const args = ["update-ref", trackingRef(branch), commit] as const
    await git({ args, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  }
  return { commit, branch }
}
