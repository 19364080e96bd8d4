import { type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"
import { commitOf } from "./resolve-ref.ts"

/**
 * Notes that a sync leaves in a repo for the next one, as refs: these are written atomically, lie outside of the
 * working tree, and go with the repo into every layer.
 */

/**
 * The commit that the last sync checked out. It came from upstream, even if upstream has rewritten its history since.
 */
export const SYNCED_REFS = "refs/berth/synced"
const SYNCED_REF = `${SYNCED_REFS}/head`
/** The commit that a checkout is about to put into the working tree. Deleted when that is done. */
const UNDER_WAY_REF = "refs/berth/under-way"
/**
 * Set while a repo's setup hook has not run to its end, after the repo was cloned into a workspace that had been set up
 * before.
 */
export const SETUP_DUE_REF = "refs/berth/setup-due"
/** The ref of a commit that saves the working tree of a half-done checkout. */
export const keptRef = (commit: string): string => `refs/berth/kept/${commit.slice(0, 12)}`

export const noteBegin = (commit: string, cwd: string, parts: GitParts): Promise<void> =>
  update([`update ${UNDER_WAY_REF} ${commit}`], cwd, parts)

export const noteSynced = (commit: string, cwd: string, parts: GitParts): Promise<void> =>
  update([`update ${SYNCED_REF} ${commit}`, `delete ${UNDER_WAY_REF}`], cwd, parts)

export const noteNothingUnderWay = (cwd: string, parts: GitParts): Promise<void> =>
  update([`delete ${UNDER_WAY_REF}`], cwd, parts)

export const noteKept = (commit: string, cwd: string, parts: GitParts): Promise<void> =>
  update([`update ${keptRef(commit)} ${commit}`], cwd, parts)

export const noteSetupDue = (commit: string, cwd: string, parts: GitParts): Promise<void> =>
  update([`update ${SETUP_DUE_REF} ${commit}`], cwd, parts)

export const noteSetUp = (cwd: string, parts: GitParts): Promise<void> =>
  update([`delete ${SETUP_DUE_REF}`], cwd, parts)

/** The commit that a sync was checking out when it was killed. */
export const underWay = (cwd: string, parts: GitParts): Promise<string | undefined> =>
  commitOf(UNDER_WAY_REF, cwd, parts)

const update = async (lines: readonly string[], cwd: string, parts: GitParts): Promise<void> => {
  const input = lines.map((line) => `${line}\n`).join("")
  await git({ args: ["update-ref", "--stdin"], cwd, deadlineMs: LOOK_DEADLINE_MS, input }, parts)
}
