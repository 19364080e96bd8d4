import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { BerthError } from "@berth/protocol/errors"
import { directoryOfRepo, type RepoSpec } from "@berth/protocol/workspace"
import type { WorkspaceRepo } from "../../repos/answer-host-requests.ts"
import { sourceOf } from "../../repos/source.ts"

/** The repos of a workspace, each with its directory; none lies in another. */
export const workspaceRepos = (specs: readonly RepoSpec[]): WorkspaceRepo[] => {
  const repos = specs.map((spec, index) => ({
    url: spec.url,
    directory: directoryOf(spec, index),
    ...(spec.ref !== undefined && { ref: spec.ref }),
  }))
  for (const [index, { directory }] of repos.entries()) {
    const clash = repos.slice(0, index).find((other) => overlaps(other.directory, directory))
    if (clash !== undefined)
      throw invalid(index, `${directory} and ${clash.directory} would lie in each other`)
  }
  return repos
}

/** The repos as sandboxes are told of them: git inside reaches all but those of the host, whose paths are not told. */
export const plannedRepos = (repos: readonly WorkspaceRepo[]): PlannedRepo[] =>
  repos.map(({ url, directory, ref }) => ({
    directory,
    ...(ref !== undefined && { ref }),
    source: sourceOf(url).kind === "host" ? { kind: "host" } : { kind: "remote", url },
  }))

const directoryOf = (spec: RepoSpec, index: number): string => {
  const directory = directoryOfRepo(spec)
  if (directory !== undefined) return directory
  throw invalid(index, `${spec.url} does not say what its directory is called: name one`)
}

const overlaps = (one: string, other: string): boolean =>
  one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`)

const invalid = (index: number, problem: string): BerthError =>
  new BerthError("input.invalid", problem, { details: { path: `repos.${index}` } })
