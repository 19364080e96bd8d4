import { closeSync } from "node:fs"
import { join } from "node:path"
import type { HeldDirectory } from "@berth/local/owned/open-of-owner"
import { BerthError } from "@berth/protocol/errors"
import { askRepo, examine, type HostRepo, holdDirectory, holds, knownCommits } from "./host-repo.ts"
import { lastSetting, settingsIn } from "./settings.ts"
import { networkUrl } from "./submodule-url.ts"

/** A submodule as a sandbox names it. */
export interface SubmoduleWanted {
  /** A commit of the repo. */
  readonly of: string
  /** The submodule's path in that commit; for a nested submodule, a path in each. */
  readonly paths: readonly string[]
}

/** A submodule as the commits of the host's repo record it. */
export interface Submodule {
  readonly commit: string
  /** Undefined if the submodule has no address on a network. */
  readonly url: string | undefined
  readonly found:
    | { readonly kind: "repo"; readonly repo: HostRepo }
    | { readonly kind: "absent"; readonly why: string }
}

/** An entry of `.gitmodules`, with the commit that is recorded at its path. */
interface Recorded {
  readonly name: string
  readonly commit: string
  readonly url: string
}

/**
 * Finds a submodule of a repo, and opens the host's repo of it. The commit must be one that the workspace's ref holds.
 * `.gitmodules` is content that anybody may have written: only two parts of it count. The name leads to a directory
 * below `modules` in the repo's own git directory, and a URL on a network is told to the sandbox; the host never goes
 * there.
 */
export const openSubmodule = async (
  repo: HostRepo,
  tip: string,
  { of, paths }: SubmoduleWanted,
  signal: AbortSignal,
): Promise<Submodule> => {
  if (of !== tip && !(await holds(repo, [tip], of, signal)))
    throw refused("that commit is none of the workspace's ref", { of })
  return await openBelow(repo, of, paths, signal)
}

const openBelow = async (
  outer: HostRepo,
  of: string,
  [path = "", ...inner]: readonly string[],
  signal: AbortSignal,
): Promise<Submodule> => {
  const { name, commit, url } = await findRecorded(outer, of, path, signal)
  if (inner.length === 0) {
    const remote = await remoteOf(outer, signal)
    // Nothing fails between the opening of the submodule's repo and its return.
    const found = await openModule(outer, name, commit, signal)
    return { commit, url: networkUrl(url, remote), found }
  }
  const found = await openModule(outer, name, commit, signal)
  if (found.kind === "absent")
    throw refused("the repo on the host does not have the submodule that it lies in", { path })
  try {
    return await openBelow(found.repo, commit, inner, signal)
  } finally {
    found.repo.close()
  }
}

const findRecorded = async (
  repo: HostRepo,
  of: string,
  path: string,
  signal: AbortSignal,
): Promise<Recorded> => {
  const list = ["config", "--null", "--no-includes", `--blob=${of}:.gitmodules`, "--get-regexp"]
  const { stdout } = await askRepo(repo, [...list, "^submodule[.].*[.](path|url)$"], signal)
  const settings = settingsIn(stdout)
  const key = settings.findLast(
    ({ key, value }) => key.endsWith(".path") && value === path && key !== "submodule.path",
  )?.key
  const name = key?.slice("submodule.".length, -".path".length)
  const show = ["ls-tree", "-z", "--full-tree", of, "--", path]
  const tree = await askRepo(repo, show, signal, undefined, { GIT_LITERAL_PATHSPECS: "1" })
  const commit = /^160000 commit ([0-9a-f]+)\t/.exec(tree.stdout)?.[1]
  if (name === undefined || commit === undefined)
    throw refused("the commit has no submodule there", { of, path })
  return { name, commit, url: lastSetting(settings, `submodule.${name}.url`) ?? "" }
}

/** Opens the submodule's own repo. A linked working tree has its own, or that of the repo that it belongs to. */
const openModule = async (
  outer: HostRepo,
  name: string,
  commit: string,
  signal: AbortSignal,
): Promise<Submodule["found"]> => {
  if (!isSafeName(name)) return { kind: "absent", why: "git takes no submodule of that name" }
  let why = "it is not checked out in the repo on the host"
  for (const directory of await gitDirectoriesOf(outer, signal)) {
    const held = holdModule(directory, name, outer.uid)
    if (held === undefined) continue
    const repo = await openHeld(held, signal)
    if (repo === undefined) {
      why = "git cannot read it in the repo on the host"
      continue
    }
    if (await hasCommit(repo, commit, signal)) return { kind: "repo", repo }
    why = `the repo on the host has it without its commit ${commit.slice(0, 12)}`
  }
  return { kind: "absent", why }
}

/** Closes the repo unless it has the commit. */
const hasCommit = async (repo: HostRepo, commit: string, signal: AbortSignal): Promise<boolean> => {
  let has = false
  try {
    has = (await knownCommits(repo, [commit], signal)).length > 0
  } finally {
    if (!has) repo.close()
  }
  return has
}

/** Opens the repo in a held directory; undefined if it is no repo, or if its objects lie elsewhere. */
const openHeld = async (
  held: HeldDirectory,
  signal: AbortSignal,
): Promise<HostRepo | undefined> => {
  const repo = await examine(held, AS_GIT_DIRECTORY, signal).catch((thrown: unknown) => {
    if (thrown instanceof BerthError && thrown.code === "repo.host_unusable") return undefined
    throw thrown
  })
  if (repo === undefined || repo.objects === join(held.path, "objects")) return repo
  repo.close()
  return undefined
}

/** The directory is the git directory itself, whatever working tree its settings name. */
const AS_GIT_DIRECTORY = { GIT_DIR: ".", GIT_WORK_TREE: "." }

const gitDirectoriesOf = async (repo: HostRepo, signal: AbortSignal): Promise<string[]> => {
  const answers = ["--git-dir", "--git-common-dir"].map(async (which) => {
    const args = ["rev-parse", "--path-format=absolute", which]
    return (await askRepo(repo, args, signal)).stdout.replace(/\n$/, "")
  })
  return [...new Set(await Promise.all(answers))]
}

/**
 * Opens the directory of a submodule's repo; undefined if there is none, if a link in the git directory leads to it, or
 * if it is another user's.
 */
const holdModule = (directory: string, name: string, uid: number): HeldDirectory | undefined => {
  const outer = tryHold(directory)
  if (outer === undefined) return undefined
  closeSync(outer.descriptor)
  const held = tryHold(join(directory, "modules", name))
  if (held === undefined) return undefined
  if (held.path === join(outer.path, "modules", name) && held.stats.uid === uid) return held
  closeSync(held.descriptor)
  return undefined
}

const tryHold = (path: string): HeldDirectory | undefined => {
  try {
    return holdDirectory(path)
  } catch {
    return undefined
  }
}

/** Whether no part of a name leads out of the directory. Git has the same rule. */
const isSafeName = (name: string): boolean =>
  !/\p{Cc}/u.test(name) && !name.split("/").some((part) => ["", ".", ".."].includes(part))

/** The address that relative URLs begin at: that of the remote of the branch that is checked out, or of `origin`. */
const remoteOf = async (repo: HostRepo, signal: AbortSignal): Promise<string | undefined> => {
  const list = ["config", "--null", "--get-regexp", "^(remote|branch)[.]"]
  const settings = settingsIn((await askRepo(repo, list, signal)).stdout)
  const head = await askRepo(repo, ["symbolic-ref", "--quiet", "--short", "HEAD"], signal)
  const branch = head.stdout.trimEnd()
  const remote = lastSetting(settings, `branch.${branch}.remote`) ?? "origin"
  return lastSetting(settings, `remote.${remote}.url`)
}

const refused = (problem: string, details: Readonly<Record<string, unknown>>): BerthError =>
  new BerthError("repo.not_of_workspace", problem, { details })
