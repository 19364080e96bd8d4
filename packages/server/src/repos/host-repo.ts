import { closeSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { userInfo } from "node:os"
import { dirname } from "node:path"
import { PLAIN_ENV } from "@berth/host/child"
import { groupFor, homeOf } from "@berth/local/owned/account"
import { type HeldDirectory, openOfOwner } from "@berth/local/owned/open-of-owner"
import { MAX_AUTHOR_CHARS, MAX_SHALLOW } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import { boundedGitEnv, MAX_GIT_MEMORY_BYTES } from "./bounds.ts"
import { type GitCall, type GitEnd, git } from "./git.ts"
import { type Promisor, promisorIn } from "./promisor.ts"

/** The deadline of a question about refs. It reads a few files; this covers a slow disk under load. */
const QUESTION_DEADLINE_MS = 20_000

/** A repo on the host as its owner sees it, held open until it is closed. */
export interface HostRepo {
  readonly path: string
  /** Git's working directory: the very directory whose owner was checked, whatever its path leads to by now. */
  readonly cwd: string
  /** Variables that make git take this directory for the repo, and not one that it lies in. */
  readonly env: Readonly<Record<string, string>>
  /** The directory of the repo's objects; for a linked worktree, those of the repo that it belongs to. */
  readonly objects: string
  /** Whether the repo's history is cut somewhere. */
  readonly isShallow: boolean
  /** The remote from which a partial clone fetches missing objects; undefined if the repo is complete. */
  readonly promisor: Promisor | undefined
  /** The user that git runs as. */
  readonly user: GitCall["user"]
  /** The owner of the repo. */
  readonly uid: number
  close(): void
}

/** A ref that was found in a repo. */
export interface FoundRef {
  readonly commit: string
  /** The full name, as in `refs/heads/main`; undefined for a commit that was named by its id. */
  readonly name: string | undefined
  /** The object that the ref names: the commit, or an annotated tag of it. */
  readonly object: string
  readonly branch: string | undefined
}

/**
 * Git's environment in a host's repo. Git obeys a repo's settings, and refuses repos of others for that reason. So a
 * server that is root runs it as the repo's owner: nothing in there can do more than its owner could. Git prompts for
 * nothing and reaches no network.
 */
export const HOST_GIT_ENV = {
  ...PLAIN_ENV,
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_NO_REPLACE_OBJECTS: "1",
  GIT_ALLOW_PROTOCOL: "",
  ...boundedGitEnv(),
}

/**
 * Opens a repo for reading: a bare one, one with a working tree, or a linked working tree. Refuses a link of one user
 * to another's repo: a person who names the path means a repo of the first.
 */
export const openHostRepo = async (wanted: string, signal: AbortSignal): Promise<HostRepo> => {
  const held = holdDirectory(wanted)
  return await examine(held, { GIT_CEILING_DIRECTORIES: dirname(held.path) }, signal)
}

/** Opens a directory of the host by the rules for repos. The caller closes its descriptor. */
export const holdDirectory = (wanted: string): HeldDirectory => {
  try {
    return openOfOwner(wanted)
  } catch (cause) {
    if (cause instanceof BerthError) throw unusable(wanted, problemOf(cause), cause)
    throw unusable(wanted, "there is no such directory", cause)
  }
}

const problemOf = ({ details, message }: BerthError): string =>
  "problem" in details ? String(details.problem) : message

/** Opens the repo in a held directory. The directory is closed with the repo, or at once if there is no repo. */
export const examine = async (
  held: HeldDirectory,
  env: HostRepo["env"],
  signal: AbortSignal,
): Promise<HostRepo> => {
  const close = () => closeSync(held.descriptor)
  try {
    return { ...(await lookAt(held, env, signal)), close }
  } catch (thrown) {
    close()
    throw thrown
  }
}

const lookAt = async (
  { descriptor, path, stats }: HeldDirectory,
  env: HostRepo["env"],
  signal: AbortSignal,
): Promise<Omit<HostRepo, "close">> => {
  const user = userFor(stats)
  const place = { cwd: `/proc/self/fd/${descriptor}`, env, user }
  const end = await askRepo(
    place,
    ["rev-parse", "--path-format=absolute", "--is-shallow-repository", "--git-path", "objects"],
    signal,
  ).catch((thrown) => {
    throw thrown instanceof BerthError || signal.aborted
      ? thrown
      : unusable(path, "git cannot be started there as its owner", thrown)
  })
  if (end.status !== 0) throw unusable(path, "git cannot read it", undefined, end.said)
  const [shallow, ...rest] = end.stdout.trimEnd().split("\n")
  const objects = rest.join("\n")
  checkObjects(path, objects, stats.uid)
  const promisor = (await isPartial(objects))
    ? await findPromisor({ path, ...place }, signal)
    : undefined
  return { path, ...place, uid: stats.uid, objects, isShallow: shallow === "true", promisor }
}

const findPromisor = async (
  repo: Pick<HostRepo, "path"> & Place,
  signal: AbortSignal,
): Promise<Promisor> => {
  const args = ["config", "--null", "--get-regexp", "^(remote|extensions)[.]"]
  const found = promisorIn((await askRepo(repo, args, signal)).stdout, repo.path)
  if (found !== undefined) return found
  throw unusable(
    repo.path,
    "it is a partial clone, and no remote of it promises what it lacks: `git remote -v` shows them, and `git config remote.NAME.promisor true` names one",
  )
}

/** Refuses objects of a third user. They may lie elsewhere, where a `.git` file or a `commondir` points. */
const checkObjects = (path: string, objects: string, owner: number): void => {
  const { descriptor, stats } = holdDirectory(objects)
  closeSync(descriptor)
  if (stats.uid === owner) return
  throw unusable(path, `its objects belong to user ${stats.uid}, and the repo to user ${owner}`)
}

/** Finds a ref as a branch, then a tag, then a commit's id; one from `refs/` as it is. Default: HEAD. */
export const findRef = async (
  repo: HostRepo,
  ref: string | undefined,
  signal: AbortSignal,
): Promise<FoundRef> => {
  for (const name of await namesFor(repo, ref, signal)) {
    const object = await resolve(repo, name, signal)
    const commit = object && (await resolve(repo, `${object}^{commit}`, signal))
    if (!object || !commit) continue
    const branch = /^refs\/heads\/(.+)$/s.exec(name)?.[1]
    return { commit, object, branch, name: name.startsWith("refs/") ? name : undefined }
  }
  throw new BerthError("repo.ref_unknown", `the repo has no ${ref ?? "commit yet"}`, {
    details: { path: repo.path, ref },
  })
}

/** The commits of the list that the repo has. */
export const knownCommits = async (
  repo: HostRepo,
  commits: readonly string[],
  signal: AbortSignal,
): Promise<string[]> => {
  if (commits.length === 0) return []
  const input = `${commits.join("\n")}\n`
  const { stdout } = await askRepo(repo, ["cat-file", "--batch-check"], signal, input)
  return stdout.split("\n").flatMap((line) => {
    const [id = "", type] = line.split(" ")
    return type === "commit" ? [id] : []
  })
}

/** Whether a commit is one of the known commits, or comes before one of them. */
export const holds = async (
  repo: HostRepo,
  known: readonly string[],
  commit: string,
  signal: AbortSignal,
): Promise<boolean> => {
  if (known.length === 0) return false
  // `^{commit}` makes git fail for a tree or a blob, for which it would list no commits either.
  const args = ["rev-list", "--max-count=1", `${commit}^{commit}`, ...known.map((id) => `^${id}`)]
  const { status, stdout } = await askRepo(repo, args, signal)
  return status === 0 && stdout === ""
}

/** The commits up to a commit that have no parents, or whose parents the repo does not have. */
export const firstCommits = async (
  repo: HostRepo,
  commit: string,
  signal: AbortSignal,
): Promise<string[]> => {
  const limit = `--max-count=${MAX_SHALLOW + 1}`
  const end = await askRepo(repo, ["rev-list", "--max-parents=0", limit, commit], signal)
  const commits = end.stdout.split("\n").filter(Boolean)
  if (end.status !== 0) throw unusable(repo.path, "git cannot read it", undefined, end.said)
  if (commits.length <= MAX_SHALLOW) return commits
  throw unusable(
    repo.path,
    "it is shallow in too many places: `git fetch --unshallow` brings the rest of its history",
  )
}

/** The author that git would name for a commit there, by the settings that hold for its owner in that repo. */
export const authorOf = async (repo: HostRepo, signal: AbortSignal) => {
  const [authorName, authorEmail] = await Promise.all([
    settingOf(repo, "user.name", signal),
    settingOf(repo, "user.email", signal),
  ])
  return { ...(authorName && { authorName }), ...(authorEmail && { authorEmail }) }
}

/** A setting; undefined if there is none of one line and of usual length. */
const settingOf = async (repo: HostRepo, key: string, signal: AbortSignal) => {
  const HOME = repo.user === undefined ? userInfo().homedir : homeOf(repo.user.uid)
  const end = await askRepo(repo, ["config", "--null", "--get", key], signal, undefined, { HOME })
  const value = end.stdout.replace(/\0$/, "").trim()
  const isUsable = value.length <= MAX_AUTHOR_CHARS && !/\p{Cc}/u.test(value)
  return end.status === 0 && isUsable ? value : undefined
}

const namesFor = async (repo: HostRepo, ref: string | undefined, signal: AbortSignal) => {
  if (ref !== undefined) {
    if (ref.startsWith("refs/")) return [ref]
    return [`refs/heads/${ref}`, `refs/tags/${ref}`, ...(/^[0-9a-f]{7,64}$/.test(ref) ? [ref] : [])]
  }
  const { status, stdout } = await askRepo(repo, ["symbolic-ref", "-q", "HEAD"], signal)
  return [status === 0 ? stdout.trimEnd() : "HEAD"]
}

const resolve = async (repo: HostRepo, name: string, signal: AbortSignal) => {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", name]
  const { status, stdout } = await askRepo(repo, args, signal)
  return status === 0 ? stdout.trimEnd() : undefined
}

type Place = Pick<HostRepo, "cwd" | "env" | "user">

/** Runs git in a repo of the host, as its owner. It reaches no network. */
export const askRepo = (
  { cwd, env: own, user }: Place,
  args: readonly string[],
  signal: AbortSignal,
  input?: string,
  more: Readonly<Record<string, string>> = {},
): Promise<GitEnd> => {
  const env = { ...HOST_GIT_ENV, GIT_NO_LAZY_FETCH: "1", ...own, ...more }
  const deadlineMs = QUESTION_DEADLINE_MS
  const maxMemoryBytes = MAX_GIT_MEMORY_BYTES
  return git({ args, cwd, env, user, signal, deadlineMs, maxMemoryBytes, ...(input && { input }) })
}

const userFor = ({ uid, gid }: HeldDirectory["stats"]): HostRepo["user"] =>
  process.getuid?.() === 0 && uid !== 0 ? { uid, gid: groupFor(uid, gid) } : undefined

const isPartial = async (objects: string): Promise<boolean> => {
  const packs = await readdir(`${objects}/pack`).catch((): string[] => [])
  return packs.some((name) => name.endsWith(".promisor"))
}

const unusable = (path: string, problem: string, cause?: unknown, gitSaid?: string): BerthError =>
  new BerthError("repo.host_unusable", `the repo on the host cannot be used: ${problem}`, {
    details: { path, problem, ...(gitSaid && { gitSaid }) },
    cause,
  })
