import { lstatSync, readdirSync } from "node:fs"
import { join } from "node:path"
import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { SETUP_DUE_REF, SYNCED_REFS } from "./notes.ts"

/**
 * Questions about the workspace's content, answered without starting a process, since every restore asks them. The
 * workspace belongs to its user, so the answers only tell whether a name exists, and nothing is opened for writing.
 */

/** The repos whose place is missing or an empty directory. */
export const missingRepos = (repos: readonly PlannedRepo[], workspace: string): PlannedRepo[] =>
  repos.filter(({ directory }) => {
    const path = join(workspace, directory)
    return !exists(path) || entriesOf(path)?.length === 0
  })

/** Directories of repos that an earlier boot cloned and that are not in the plan. */
export const unplannedRepos = (repos: readonly PlannedRepo[], workspace: string): string[] => {
  const planned = repos.map(({ directory }) => directory)
  const isPlanned = (name: string) => planned.includes(name)
  const isAbovePlanned = (name: string) => planned.some((other) => other.startsWith(`${name}/`))
  return (entriesOf(workspace) ?? [])
    .flatMap((name) =>
      isAbovePlanned(name)
        ? (entriesOf(join(workspace, name)) ?? []).map((inner) => `${name}/${inner}`)
        : [name],
    )
    .filter((name) => !isPlanned(name) && hasRef(SYNCED_REFS, join(workspace, name)))
}

/** Whether the setup hook of a repo has not run to its end since the repo was cloned. */
export const isSetupDue = (repo: string): boolean => hasRef(SETUP_DUE_REF, repo)

/** Whether a ref exists. Git packs refs only when it is asked to; until then each is a file. */
const hasRef = (ref: string, repo: string): boolean => exists(join(repo, ".git", ref))

const exists = (path: string): boolean => {
  try {
    lstatSync(path)
    return true
  } catch {
    return false
  }
}

/** The names in a directory; undefined if it is no directory, or cannot be read. */
const entriesOf = (path: string): string[] | undefined => {
  try {
    return readdirSync(path)
  } catch {
    return undefined
  }
}
