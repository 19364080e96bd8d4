import { withoutCredentials } from "@berth/protocol/url-credentials"
import { askGit, type GitParts, git, LOOK_DEADLINE_MS, TRANSFER_DEADLINE_MS } from "./git.ts"
import { commitOf, fetch, resolveRef, resolveRemoteHead } from "./resolve-ref.ts"
import { syncSubmodules } from "./submodules.ts"
import { type Source, type Target, trackingRef } from "./target.ts"

/** A repo that git in the sandbox reaches by itself. Without a ref, the remote's HEAD is wanted. */
export const remoteSource = (url: string, ref: string | undefined, parts: GitParts): Source => {
  // Credentials come from the helper: a token in the URL would be kept in .git/config.
  const address = withoutCredentials(url)
  const wanted = ref === "HEAD" ? undefined : ref
  return {
    clone: async (directory) => {
      // Fetches all commits and trees, for log and blame, but only the blobs of the checkout. Git fetches others when
      // they are needed. A server without filters sends everything.
      const how = ["--no-checkout", "--no-recurse-submodules", "--origin=origin", "--progress"]
      const args = ["clone", ...how, "--filter=blob:none", "--", address, directory] as const
      await git({ args, cwd: "/", deadlineMs: TRANSFER_DEADLINE_MS }, parts)
      return wanted === undefined
        ? await clonedHead(directory, parts)
        : await resolveRef(wanted, directory, parts)
    },
    fetch: async (directory) => {
      await setAddress(address, directory, parts)
      const args = ["fetch", "--prune", "--progress", "origin"] as const
      await git({ args, cwd: directory, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
      return wanted === undefined
        ? await fetchedHead(directory, parts)
        : await resolveRef(wanted, directory, parts)
    },
    bringSubmodules: (directory) => syncSubmodules(directory, parts),
  }
}

/** The target that a clone got from the remote's HEAD. An empty repo has a branch there, but no commit. */
const clonedHead = async (cwd: string, parts: GitParts): Promise<Target | undefined> => {
  const commit = await commitOf("HEAD", cwd, parts)
  const args = ["symbolic-ref", "--quiet", "--short", "HEAD"] as const
  const branch = await askGit({ args, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  return commit === undefined ? undefined : { commit, branch }
}

const fetchedHead = async (cwd: string, parts: GitParts): Promise<Target | undefined> => {
  const head = await resolveRemoteHead(cwd, parts)
  if (head === undefined) return undefined
  if (head.branch === undefined) await fetch("HEAD", cwd, parts)
  // Uses the branch as it was fetched: it may have moved since.
  const commit = head.branch && (await commitOf(trackingRef(head.branch), cwd, parts))
  return { commit: commit ?? head.id, branch: head.branch }
}

/** Sets the plan's address, which counts even if an earlier boot had another. */
const setAddress = async (address: string, cwd: string, parts: GitParts): Promise<void> => {
  const deadlineMs = LOOK_DEADLINE_MS
  const get = ["config", "--get", "remote.origin.url"] as const
  const before = await askGit({ args: get, cwd, deadlineMs }, parts)
  if (before === address) return
  const verb = before === undefined ? "add" : "set-url"
  await git({ args: ["remote", verb, "origin", address], cwd, deadlineMs }, parts)
}
