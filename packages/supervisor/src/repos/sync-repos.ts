import { mkdir, rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { makeDirectory, remove } from "./files.ts"
import type { GitParts } from "./git.ts"
import type { HostRepos } from "./host-repos.ts"
import { hostSource } from "./host-source.ts"
import { findLfs } from "./lfs.ts"
import { GitOutput } from "./progress.ts"
import { remoteSource } from "./remote-source.ts"
import { type Synced, syncRepo } from "./sync-repo.ts"

/** Directory for clones, below the workspace. They are renamed into place when they are whole. */
export const ASIDE = ".berth-cloning"
/** Directory for bundles, beside the user's home: on the disk, and out of the user's hands. */
export const BUNDLES = ".berth-bundles"
/** Time limit for cleaning up after a sync that was cut short. The next sync removes the rest first. */
export const CLEAN_UP_DEADLINE_MS = 2_000

export interface SyncReposOptions extends Omit<GitParts, "repo" | "onOutput" | "hasLfs"> {
  readonly repos: readonly PlannedRepo[]
  readonly workspace: string
  readonly home: string
  readonly hostRepos: HostRepos
  /** The directory of the repo whose setup hook is due when it is cloned. */
  readonly setupDue: string | undefined
  readonly bornAt: Date
  readonly onProgress: (repo: string, what: string) => void
  readonly onLine: (repo: string, line: string) => void
  readonly warn: (message: string) => void
}

export interface SyncedRepo extends Synced {
  readonly repo: string
  readonly tookMs: number
  /** Transferred objects and bytes, by git's own count, which covers only what git shows. */
  readonly objects: number
  readonly bytes: number
}

/** Syncs all repos at once. If one fails the others are cancelled and awaited, and nothing half-done is left. */
export const syncRepos = async (options: SyncReposOptions): Promise<SyncedRepo[]> => {
  const { repos, workspace, home } = options
  const aside = join(workspace, ASIDE)
  const bundles = join(dirname(home), BUNDLES)
  const failed = new AbortController()
  const signal = AbortSignal.any([options.signal, failed.signal])
  const base = { ...options, repo: "all repos", signal }
  const parts: GitParts = { ...base, hasLfs: await findLfs(base) }
  await remove(aside, parts)
  await rm(bundles, { recursive: true, force: true })
  const syncs = new Map<string, Promise<SyncedRepo>>()
  try {
    if (repos.some(({ source }) => source.kind === "host")) await mkdir(bundles, { mode: 0o711 })
    await makeDirectory(aside, parts)
    for (const [index, repo] of outerFirst(repos).entries()) {
      // A repo inside of another's tree comes after it: its directory must not exist before.
      const outer = [...syncs].findLast(([other]) => repo.directory.startsWith(`${other}/`))?.[1]
      const places = { aside: join(aside, String(index)), bundles }
      const sync = syncOne(repo, places, outer, options, parts)
      sync.catch((thrown: unknown) => failed.abort(thrown))
      syncs.set(repo.directory, sync)
    }
    const outcomes = await Promise.allSettled(syncs.values())
    // The first failure is the reason why the others were cancelled.
    if (failed.signal.aborted && !options.signal.aborted) throw failed.signal.reason
    const lost = outcomes.find(({ status }) => status === "rejected")
    if (lost?.status === "rejected") throw lost.reason
    return await Promise.all(
      repos.map(({ directory }) => syncs.get(directory) as Promise<SyncedRepo>),
    )
  } finally {
    const notCancelled = { ...parts, signal: new AbortController().signal }
    await remove(aside, notCancelled, CLEAN_UP_DEADLINE_MS).catch(() => {})
    await rm(bundles, { recursive: true, force: true })
  }
}

const outerFirst = (repos: readonly PlannedRepo[]): PlannedRepo[] =>
  repos.toSorted((one, other) => one.directory.length - other.directory.length)

const syncOne = async (
  { directory: repo, source, ref }: PlannedRepo,
  { aside, bundles }: { readonly aside: string; readonly bundles: string },
  outer: Promise<unknown> | undefined,
  options: SyncReposOptions,
  shared: GitParts,
): Promise<SyncedRepo> => {
  await outer
  const { workspace, hostRepos, bornAt, clock } = options
  const beganAtMs = clock.nowMs()
  const output = new GitOutput({
    onProgress: (what) => options.onProgress(repo, what),
    onLine: (line) => options.onLine(repo, line),
  })
  const parts: GitParts = { ...shared, repo, onOutput: output.write }
  const synced = await syncRepo(
    {
      source:
        source.kind === "remote"
          ? remoteSource(source.url, ref, parts)
          : hostSource({ hostRepos, ref, bundles }, parts),
      path: join(workspace, repo),
      aside,
      bornAt,
      isSetupDue: repo === options.setupDue,
      warn: (message) => options.warn(`${repo}: ${message}`),
    },
    parts,
  )
  options.onProgress(repo, synced.did)
  const tookMs = Math.round(clock.nowMs() - beganAtMs)
  return { repo, ...synced, tookMs, objects: output.objects, bytes: output.bytes }
}
