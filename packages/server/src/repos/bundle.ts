import { chmod, chown, mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { hideCredentials } from "@berth/protocol/url-credentials"
import { boundBundle, MAX_BUNDLE_BYTES, MAX_GIT_MEMORY_BYTES, PACKING_NICENESS } from "./bounds.ts"
import { type GitEnd, gitStream } from "./git.ts"
import {
  authorOf,
  type FoundRef,
  findRef,
  firstCommits,
  HOST_GIT_ENV,
  type HostRepo,
  holds,
  knownCommits,
  openHostRepo,
} from "./host-repo.ts"
import { FETCHED, makeLensDirectory, removeLens } from "./lenses.ts"
import { PROMISOR, promisorEnv } from "./promisor.ts"
import { openSubmodule, type SubmoduleWanted } from "./submodule.ts"

/** Enough for a whole repo of gigabytes, as slowly as the sandbox reads it. */
export const BUNDLE_DEADLINE_MS = 30 * 60_000

export interface BundleWanted {
  /** The path on the host; from the workspace, never from a sandbox. */
  readonly path: string
  readonly ref: string | undefined
  /** Commits that need not be sent. Commits that the repo does not know are ignored. */
  readonly have: readonly string[]
  /** The submodule to send; if absent, the repo itself is sent. */
  readonly submodule?: SubmoduleWanted | undefined
}

export interface BundleSent {
  readonly commit: string
  readonly branch: string | undefined
  /** False if the commit, or one that comes after it, is among those that need not be sent. */
  readonly isBundled: boolean
  /** The commits at which the history of a shallow repo is cut. */
  readonly shallow: readonly string[]
  readonly authorName?: string
  readonly authorEmail?: string
  /** The address of a submodule on a network. */
  readonly url?: string | undefined
  /** The reason why the host does not have a submodule's commit. */
  readonly absent?: string | undefined
}

export interface BundleOptions {
  /** Takes the whole bundle. */
  readonly send: (bundle: Readable) => Promise<void>
  readonly deadlineMs?: number
  readonly maxBytes?: number
  readonly maxMemoryBytes?: number
  readonly signal: AbortSignal
}

/** Sends a git bundle of a ref of a host's repo. In the bundle, HEAD is the commit; beside it stands the ref. */
export const sendBundle = async (
  wanted: BundleWanted,
  options: BundleOptions,
): Promise<BundleSent> => {
  const { signal } = options
  const repo = await openHostRepo(wanted.path, signal)
  try {
    const found = await findRef(repo, wanted.ref, signal)
    return wanted.submodule === undefined
      ? await sendFrom(repo, found, wanted.have, options)
      : await sendSubmodule(repo, found, wanted.submodule, wanted.have, options)
  } finally {
    repo.close()
  }
}

const sendSubmodule = async (
  outer: HostRepo,
  { commit: tip }: FoundRef,
  submodule: SubmoduleWanted,
  have: readonly string[],
  options: BundleOptions,
): Promise<BundleSent> => {
  const { commit, url, found } = await openSubmodule(outer, tip, submodule, options.signal)
  const named = { commit, object: commit, name: undefined, branch: undefined }
  if (found.kind === "absent")
    return { ...named, isBundled: false, shallow: [], url, absent: found.why }
  try {
    return { ...(await sendFrom(found.repo, named, have, options)), url }
  } finally {
    found.repo.close()
  }
}

const sendFrom = async (
  repo: HostRepo,
  found: FoundRef,
  have: readonly string[],
  {
    send,
    deadlineMs = BUNDLE_DEADLINE_MS,
    maxBytes = MAX_BUNDLE_BYTES,
    maxMemoryBytes = MAX_GIT_MEMORY_BYTES,
    signal,
  }: BundleOptions,
): Promise<BundleSent> => {
  const { commit, branch } = found
  const author = await authorOf(repo, signal)
  const nothing = { commit, branch, isBundled: false, shallow: [], ...author }
  if (have.includes(commit)) return nothing
  const known = await knownCommits(repo, have, signal)
  // Git makes no empty bundle.
  if (await holds(repo, known, commit, signal)) return nothing
  const shallow = repo.isShallow ? await firstCommits(repo, commit, signal) : []
  await throughLens(repo, { ...found, shallow }, async (lens) => {
    const bundle = gitStream(
      {
        args: [
          ...["bundle", "create", "--quiet", "-", "HEAD", ...(found.name ? [found.name] : [])],
          ...known.map((id) => `^${id}`),
        ],
        cwd: lens,
        env: {
          ...HOST_GIT_ENV,
          GIT_DIR: lens,
          ...(repo.promisor === undefined
            ? { GIT_CONFIG_GLOBAL: "/dev/null" }
            : {
                ...promisorEnv(repo.promisor, repo.user?.uid),
                GIT_OBJECT_DIRECTORY: join(lens, FETCHED),
              }),
        },
        maxFileBytes: maxBytes,
        niceness: PACKING_NICENESS,
        maxMemoryBytes,
        user: repo.user,
        deadlineMs,
        signal,
      },
      (end) => failure(repo, end),
    )
    try {
      await send(bundle.compose(boundBundle(repo.path, maxBytes)))
    } finally {
      bundle.destroy()
    }
  })
  return { commit, branch, isBundled: true, shallow, ...author }
}

const failure = ({ path, promisor }: HostRepo, { status, said }: GitEnd): BerthError => {
  const details = { path, status, gitSaid: hideCredentials(said) }
  if (promisor === undefined)
    return new BerthError("repo.bundle_failed", "git could not pack the repo on the host", {
      details,
    })
  const { remote } = promisor
  const url = hideCredentials(promisor.url)
  return new BerthError(
    "repo.promisor_failed",
    `the repo on the host is a partial clone, and what it lacks could not be fetched from its remote ${remote} (${url})`,
    { details: { ...details, remote, url } },
  )
}

/**
 * Makes a lens: a repo without objects of its own, through which git sees those of another one. A bundle needs a ref
 * for its contents, and a commit named by its id has none; nothing is to be written into somebody's repo; and none of
 * its settings or replacements are to count.
 */
const throughLens = async (
  { objects, promisor, user }: HostRepo,
  { commit, name, object, branch, shallow }: FoundRef & Pick<BundleSent, "shallow">,
  act: (lens: string) => Promise<void>,
): Promise<void> => {
  const lens = await makeLensDirectory()
  try {
    const extensions = [
      ...(commit.length === 64 ? ["objectFormat = sha256"] : []),
      ...(promisor === undefined ? [] : [`partialClone = ${PROMISOR}`]),
    ]
    const format =
      extensions.length > 0
        ? `[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\t${extensions.join("\n\t")}\n`
        : "[core]\n\trepositoryFormatVersion = 0\n"
    // In quotes, as git reads a path with any character in it.
    const alternates = `${JSON.stringify(objects)}\n`
    const fetched = promisor === undefined ? [] : [FETCHED, `${FETCHED}/info`, `${FETCHED}/pack`]
    for (const directory of ["objects", "objects/info", "refs", ...fetched])
      await makeReadable(join(lens, directory), (path) => mkdir(path), 0o755)
    const files = {
      config: format,
      HEAD: branch === undefined ? `${commit}\n` : `ref: ${name}\n`,
      "packed-refs": name === undefined ? "" : `${object} ${name}\n`,
      ...(shallow.length > 0 && { shallow: `${shallow.join("\n")}\n` }),
      "objects/info/alternates": alternates,
      ...(promisor !== undefined && { [`${FETCHED}/info/alternates`]: alternates }),
    }
    for (const [file, text] of Object.entries(files))
      await makeReadable(join(lens, file), (path) => writeFile(path, text), 0o644)
    // The owner reads the lens, and can change only the directories with objects fetched for a partial clone. The owner
    // also removes those.
    if (user !== undefined) {
      for (const directory of fetched) await chown(join(lens, directory), user.uid, user.gid)
      for (const directory of fetched) await chmod(join(lens, directory), 0o700)
      await chown(lens, process.getuid?.() ?? 0, user.gid)
      await chmod(lens, 0o750)
    }
    await act(lens)
  } finally {
    await removeLens(lens)
  }
}

/** Makes a file or directory readable, whatever the umask is. Nobody else is in the lens yet. */
const makeReadable = async (
  path: string,
  make: (path: string) => Promise<unknown>,
  mode: number,
): Promise<void> => {
  await make(path)
  await chmod(path, mode)
}
