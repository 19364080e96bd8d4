import { chmod, mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { noteShallow } from "./files.ts"
import { askGit, type GitParts, git, LOOK_DEADLINE_MS, TRANSFER_DEADLINE_MS } from "./git.ts"
import type { FetchedRepo, HostRepos } from "./host-repos.ts"
import { commitOf } from "./resolve-ref.ts"
import { type Source, type Target, trackingRef } from "./target.ts"

/** Enough to know where both sides meet; the newest stand first. */
const MAX_HAVE = 16

export interface HostSourceOptions {
  readonly hostRepos: HostRepos
  readonly ref: string | undefined
  /** Where bundles lie for as long as they are read: on a disk, and nobody's but the supervisor's. */
  readonly bundles: string
}

/**
 * A repo on the host, of which the server sends what is missing as a git bundle. Git takes the objects out of
 * it; the refs follow from what the server says, so that it does not matter what the bundle calls them.
 */
export const hostSource = (options: HostSourceOptions, parts: GitParts): Source => {
  const deadlineMs = LOOK_DEADLINE_MS
  const receive = (
    have: readonly string[],
    take: (fetched: FetchedRepo, path: string) => unknown,
  ) => withBundle(options, have, take, parts)
  return {
    clone: (directory) =>
      receive([], async ({ commit, shallow = [], authorName, authorEmail }, path) => {
        const format = `--object-format=${commit.length === 64 ? "sha256" : "sha1"}`
        await git({ args: ["init", "--quiet", format, directory], cwd: "/", deadlineMs }, parts)
        const add = ["remote", "add", "origin", hostAddress(parts.repo)] as const
        await git({ args: add, cwd: directory, deadlineMs }, parts)
        await setUnlessSet("user.name", authorName, directory, parts)
        await setUnlessSet("user.email", authorEmail, directory, parts)
        await noteShallow(directory, shallow, parts)
        await unbundle(path, directory, parts)
      }).then((fetched) => noteBranch(fetched, directory, parts)),
    fetch: async (directory) => {
      const sort = ["--sort=-committerdate", `--count=${MAX_HAVE}`, "--format=%(objectname)"]
      const args = ["for-each-ref", ...sort, "refs/remotes/origin", "refs/berth/synced"] as const
      const have = await git({ args, cwd: directory, deadlineMs }, parts)
      const ids = [...new Set(have.split("\n").filter((id) => id !== ""))]
      const fetched = await receive(ids, async ({ isBundled, shallow = [] }, path) => {
        if (!isBundled) return
        await noteShallow(directory, shallow, parts)
        await unbundle(path, directory, parts)
      })
      return await noteBranch(fetched, directory, parts)
    },
  }
}

/**
 * What `git remote -v` shows. There is nothing to fetch from or push to: the host's repo is out of reach from
 * inside, and git's helper for this scheme (`git-remote-berth-host.ts`) says so. Branches need a remote to track.
 */
export const hostAddress = (repo: string): string => `berth-host://${repo}`

/** The directory is the supervisor's own, so that whoever works inside cannot put a link where it writes. */
const withBundle = async (
  { hostRepos, ref, bundles }: HostSourceOptions,
  have: readonly string[],
  take: (fetched: FetchedRepo, path: string) => unknown,
  { repo, signal }: GitParts,
): Promise<FetchedRepo> => {
  const directory = await mkdtemp(join(bundles, "bundle-"))
  try {
    await chmod(directory, 0o711)
    const path = join(directory, "bundle")
    const fetched = await hostRepos.fetch({ repo, ref, have, path }, signal)
    if (fetched.isBundled) await chmod(path, 0o644)
    await take(fetched, path)
    return fetched
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** A setting of the repo, unless the user inside has it already. */
const setUnlessSet = async (
  key: string,
  value: string | undefined,
  cwd: string,
  parts: GitParts,
): Promise<void> => {
  const deadlineMs = LOOK_DEADLINE_MS
  if (value === undefined) return
  if ((await askGit({ args: ["config", "--get", key], cwd, deadlineMs }, parts)) !== undefined)
    return
  await git({ args: ["config", key, value], cwd, deadlineMs }, parts)
}

const unbundle = async (path: string, cwd: string, parts: GitParts): Promise<void> => {
  const args = ["bundle", "unbundle", "--progress", path] as const
  await git({ args, cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
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
