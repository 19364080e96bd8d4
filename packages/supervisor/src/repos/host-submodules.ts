import { join } from "node:path"
import { MAX_SUBMODULE_DEPTH } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import { forceCheckOut } from "./checkout.ts"
import { lookAtPlace, taken } from "./files.ts"
import { type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"
import {
  commitsIn,
  type HostSourceOptions,
  hostAddress,
  initialise,
  setUnlessSet,
  unbundle,
  withBundle,
} from "./host-bundle.ts"
import type { FetchedRepo } from "./host-repos.ts"
import { noteSynced } from "./notes.ts"
import { isAllowed, type Recorded, recordedIn } from "./recorded-submodules.ts"
import { commitOf } from "./resolve-ref.ts"
import { submodulesIn, updateSubmodules } from "./submodules.ts"

interface Bringing extends HostSourceOptions {
  /** The commit of the outermost repo. */
  readonly of: string
  /** The paths of the submodules around this one. */
  readonly above: readonly string[]
  readonly warn: (message: string) => void
}

/**
 * Fetches the submodules of a checkout, and those inside of them: from the repo on the host if it has the recorded
 * commit, else from their address on a network. A submodule that is in neither is left out, with a warning.
 */
export const bringSubmodules = async (
  cwd: string,
  bringing: Bringing,
  parts: GitParts,
): Promise<readonly string[]> => {
  const directories: string[] = []
  for (const submodule of await recordedIn(cwd, parts)) {
    const place = join(cwd, submodule.path)
    const paths = [...bringing.above, submodule.path]
    const came = await bringOne(submodule, cwd, paths, bringing, parts)
    if (came === "from its address") directories.push(...(await submodulesIn(place, parts)))
    if (came !== "not") directories.push(place)
    if (came === "from the host")
      directories.push(...(await bringSubmodules(place, { ...bringing, above: paths }, parts)))
  }
  return directories
}

type Came = "from the host" | "from its address" | "not"

const bringOne = async (
  submodule: Recorded,
  cwd: string,
  paths: readonly string[],
  bringing: Bringing,
  parts: GitParts,
): Promise<Came> => {
  const { name, path, commit } = submodule
  const place = join(cwd, path)
  if (!isAllowed(submodule)) {
    bringing.warn(`submodule ${paths.join("/")} is left out: git takes none of its name or path`)
    return "not"
  }
  if (paths.length > MAX_SUBMODULE_DEPTH) {
    bringing.warn(tooDeep(paths))
    return "not"
  }
  const standing = await lookAtPlace(place, parts)
  if (standing === "other") throw taken(parts.repo, place)
  const isThere = standing === "repo"
  if (!isThere || (await commitOf(commit, place, parts)) === undefined) {
    const came = await fetchOne(submodule, { cwd, paths, isThere }, bringing, parts)
    if (came !== "from the host") return came
  }
  // If this setting exists, git does not resolve an address itself.
  await setUnlessSet(`submodule.${name}.url`, hostAddress(parts.repo), cwd, parts)
  // A killed boot may have left a repo without a checkout.
  if ((await commitOf("HEAD", place, parts)) === undefined)
    await forceCheckOut({ commit, branch: undefined }, place, parts)
  await noteSynced(commit, place, parts)
  const deadlineMs = LOOK_DEADLINE_MS
  await git({ args: ["submodule", "absorbgitdirs", "--", path], cwd, deadlineMs }, parts)
  await updateSubmodules(["--", path], cwd, parts)
  return "from the host"
}

interface Place {
  readonly cwd: string
  readonly paths: readonly string[]
  readonly isThere: boolean
}

const fetchOne = async (
  { name, path, url: recordedUrl }: Recorded,
  { cwd, paths, isThere }: Place,
  { of, warn, ...options }: Bringing,
  parts: GitParts,
): Promise<Came> => {
  const place = join(cwd, path)
  const shown = paths.join("/")
  const wanted = {
    have: isThere ? await commitsIn(place, parts) : [],
    submodule: { of, paths },
  }
  const take = async (fetched: FetchedRepo, bundle: string) => {
    if (fetched.absent !== undefined) return
    if (!isThere) await initialise(place, fetched.url ?? hostAddress(parts.repo), fetched, parts)
    await unbundle(fetched, bundle, place, parts)
  }
  const { absent, url } = await withBundle(options, wanted, take, parts).catch(refusalOf)
  if (url !== undefined) {
    const args = ["config", `submodule.${name}.url`, url] as const
    await git({ args, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  }
  if (absent === undefined) return "from the host"
  if (url === undefined) {
    warn(leftOut(shown, absent, recordedUrl))
    return "not"
  }
  await cloneFromAddress(path, { shown, absent, url }, cwd, parts)
  return "from its address"
}

/**
 * Turns the server's refusal into the reason why the submodule is absent: the repo has changed since, or its clone on
 * the host lacks `.gitmodules`.
 */
const refusalOf = (thrown: unknown): Pick<FetchedRepo, "absent" | "url"> => {
  if (!(thrown instanceof BerthError) || thrown.code !== "repo.not_of_workspace") throw thrown
  return { absent: `it was not found in the repo on the host (${thrown.message})` }
}

const tooDeep = (paths: readonly string[]): string =>
  [
    `submodule ${paths.join("/")} is left out: more than ${MAX_SUBMODULE_DEPTH} submodules lie one inside the other`,
    "bring its files with `berth cp`, or `git submodule update --init` in the sandbox where it has an address on a network",
  ].join("; ")

const leftOut = (shown: string, absent: string, url: string): string =>
  [
    `submodule ${shown} is left out: ${absent}, and there is no address on a network for it (its URL is ${url})`,
    "run `git submodule update --init --recursive` in that repo and make the sandbox anew, or bring the files with `berth cp`",
  ].join("; ")

const cloneFromAddress = async (
  path: string,
  { shown, absent, url }: { readonly shown: string; readonly absent: string; readonly url: string },
  cwd: string,
  parts: GitParts,
): Promise<void> => {
  try {
    await updateSubmodules(["--recursive", "--", path], cwd, parts)
  } catch (thrown) {
    if (!(thrown instanceof BerthError)) throw thrown
    throw new BerthError(
      thrown.code,
      `submodule ${shown} could not be cloned from ${url}, and ${absent}: run git submodule update --init --recursive there. ${thrown.message}`,
      { details: thrown.details, cause: thrown },
    )
  }
}
