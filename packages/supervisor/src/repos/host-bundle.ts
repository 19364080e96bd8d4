import { chmod, mkdtemp, rm } from "node:fs/promises"
import { join } from "node:path"
import { noteShallow } from "./files.ts"
import { askGit, type GitParts, git, LOOK_DEADLINE_MS, TRANSFER_DEADLINE_MS } from "./git.ts"
import type { FetchedRepo, HostRepos, WantedRepo } from "./host-repos.ts"

/** Limit of the commits that are sent as known, the newest first. That is enough to find where both sides meet. */
const MAX_HAVE = 16

export interface HostSourceOptions {
  readonly hostRepos: HostRepos
  readonly ref: string | undefined
  /** Directory for bundles while they are read: on a disk, and only the supervisor's. */
  readonly bundles: string
}

export type Take = (fetched: FetchedRepo, path: string) => unknown

/**
 * The remote's URL, as `git remote -v` shows it. Branches need a remote to track, but there is nothing to fetch from or
 * push to: the host's repo is out of reach from inside, and git's helper for this scheme (`git-remote-berth-host.ts`)
 * says so.
 */
export const hostAddress = (repo: string): string => `berth-host://${repo}`

/** Makes an empty repo, with the author of the host's repo. */
export const initialise = async (
  directory: string,
  address: string,
  { commit, authorName, authorEmail }: FetchedRepo,
  parts: GitParts,
): Promise<void> => {
  const deadlineMs = LOOK_DEADLINE_MS
  const format = `--object-format=${commit.length === 64 ? "sha256" : "sha1"}`
  await git({ args: ["init", "--quiet", format, directory], cwd: "/", deadlineMs }, parts)
  const add = ["remote", "add", "origin", address] as const
  await git({ args: add, cwd: directory, deadlineMs }, parts)
  await setUnlessSet("user.name", authorName, directory, parts)
  await setUnlessSet("user.email", authorEmail, directory, parts)
}

/** Commits that came from the host, which need not be sent again. */
export const commitsIn = async (cwd: string, parts: GitParts): Promise<readonly string[]> => {
  const sort = ["--sort=-committerdate", `--count=${MAX_HAVE}`, "--format=%(objectname)"]
  const args = ["for-each-ref", ...sort, "refs/remotes/origin", "refs/berth/synced"] as const
  const have = await git({ args, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  return [...new Set(have.split("\n").filter((id) => id !== ""))]
}

/**
 * Fetches a bundle, and passes it to `take`. Its directory is the supervisor's own, so that the user cannot put a link
 * where it is written.
 */
export const withBundle = async (
  { hostRepos, ref, bundles }: HostSourceOptions,
  { have = [], submodule }: Partial<Pick<WantedRepo, "have" | "submodule">>,
  take: Take,
  { repo, signal }: GitParts,
): Promise<FetchedRepo> => {
  const directory = await mkdtemp(join(bundles, "bundle-"))
  try {
    await chmod(directory, 0o711)
    const path = join(directory, "bundle")
    const fetched = await hostRepos.fetch({ repo, ref, have, submodule, path }, signal)
    if (fetched.isBundled) await chmod(path, 0o644)
    await take(fetched, path)
    return fetched
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Sets a setting of the repo, unless the user inside has it already. */
export const setUnlessSet = async (
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

/** Takes the objects out of a bundle, if there is one. */
export const unbundle = async (
  { isBundled, shallow = [] }: FetchedRepo,
  path: string,
  cwd: string,
  parts: GitParts,
): Promise<void> => {
  if (!isBundled) return
  await noteShallow(cwd, shallow, parts)
  const args = ["bundle", "unbundle", "--progress", path] as const
  await git({ args, cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
}
