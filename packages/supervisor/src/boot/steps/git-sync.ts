import type { Clock } from "../../processes/clock.ts"
import { missingRepos, unplannedRepos } from "../../repos/look-at-workspace.ts"
import { type SyncedRepo, syncRepos } from "../../repos/sync-repos.ts"
import type { BootContext } from "../context.ts"
import type { Step, StepReport } from "../step.ts"

/** Time limit, above that of one transfer and one checkout. The calls' own deadlines give a better error. */
export const GIT_SYNC_TIMEOUT_MS = 40 * 60_000
/**
 * Interval of progress: fast enough to see it move, and no more than a few messages a second, whatever the number of
 * repos.
 */
export const PROGRESS_INTERVAL_MS = 300

/**
 * Syncs every repo of the plan, at once. `clone` is for an empty workspace, `update` for one that holds the repos. Both
 * take what is there: a repo that an earlier boot cloned is updated, and a missing one is cloned. `restore` is for a
 * workspace that was in use: existing repos are left alone, a missing repo was added since and is cloned, and a repo
 * that the plan lacks stays.
 */
export const gitSync = (how: "clone" | "update" | "restore"): Step<BootContext> => ({
  name: "git-sync",
  needs: [],
  required: true,
  timeoutMs: GIT_SYNC_TIMEOUT_MS,
  run: async (context, signal, tell) => {
    const { plan, places, user, environment, clock, pipes, hostRepos } = context
    if (how === "restore")
      for (const repo of unplannedRepos(plan.repos, places.workspace))
        tell.warn(`${repo}: the workspace does not name it any more; its files stay`)
    if (plan.repos.length === 0) return { skipped: "the plan has no repos" }
    const repos = how === "restore" ? missingRepos(plan.repos, places.workspace) : plan.repos
    if (repos.length === 0) return { skipped: "all repos are there, and stay as they are" }
    const progress = new Progress(clock, (detail) => tell.progress(detail))
    try {
      const synced = await syncRepos({
        repos,
        workspace: places.workspace,
        home: places.home,
        setupDue: how === "restore" ? plan.repos[0]?.directory : undefined,
        user,
        environment,
        clock,
        pipes,
        hostRepos,
        signal,
        bornAt: new Date(performance.timeOrigin),
        onProgress: (repo, what) => progress.note(repo, what),
        onLine: (repo, line) => tell.output(Buffer.from(`${repo}: ${line}\n`)),
        warn: (message) => tell.warn(message),
      })
      for (const { repo } of synced.filter(({ did }) => how === "update" && did === "cloned"))
        tell.warn(`${repo}: it was not there, though the workspace was prepared: it was cloned`)
      return report(synced)
    } catch (thrown) {
      if (how !== "restore" || signal.aborted) throw thrown
      // The existing files can be used and reached. The next boot tries again.
      const why = thrown instanceof Error ? thrown.message : String(thrown)
      const names = repos.map(({ directory }) => directory).join(", ")
      tell.warn(`${names}: not there, and could not be cloned: ${why}`)
      return { did: `left ${names} out` }
    } finally {
      progress.end()
    }
  },
})

/** Reports the progress of all repos as one line, at most once per interval, and always the last state. */
class Progress {
  readonly #clock: Clock
  readonly #say: (detail: string) => void
  readonly #repos = new Map<string, string>()
  #takeBack: (() => void) | undefined
  #isNew = false

  constructor(clock: Clock, say: (detail: string) => void) {
    this.#clock = clock
    this.#say = say
  }

  note(repo: string, what: string): void {
    if (this.#repos.get(repo) === what) return
    this.#repos.set(repo, what)
    this.#isNew = true
    if (this.#takeBack === undefined) this.#next()
  }

  end(): void {
    this.#takeBack?.()
    this.#flush()
  }

  readonly #next = (): void => {
    this.#takeBack = undefined
    if (this.#flush()) this.#takeBack = this.#clock.after(PROGRESS_INTERVAL_MS, this.#next)
  }

  #flush(): boolean {
    if (!this.#isNew) return false
    this.#isNew = false
    this.#say([...this.#repos].map(([repo, what]) => `${repo}: ${what}`).join(", "))
    return true
  }
}

/** The facts are columns: the same position in each is the same repo. */
const report = (synced: readonly SyncedRepo[]): StepReport => ({
  did: synced.map(sentence).join(", "),
  facts: {
    repos: synced.map(({ repo }) => repo),
    did: synced.map(({ did }) => did),
    commits: synced.map(({ commit }) => commit ?? ""),
    branches: synced.map(({ branch }) => branch ?? ""),
    kept: synced.map(({ kept }) => kept),
    tookMs: synced.map(({ tookMs }) => String(tookMs)),
    objects: synced.reduce((sum, { objects }) => sum + objects, 0),
    bytes: synced.reduce((sum, { bytes }) => sum + bytes, 0),
  },
})

const sentence = ({ repo, did, commit, branch }: SyncedRepo): string => {
  const where = commit === undefined ? "empty" : `${branch ?? "detached"} at ${commit.slice(0, 12)}`
  return `${repo} ${did} (${where})`
}
