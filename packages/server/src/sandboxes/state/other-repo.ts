import { BerthError } from "@berth/protocol/errors"
import type { RepoSpec, WorkspaceSpec } from "@berth/protocol/workspace"
import { sourceOf } from "../../repos/source.ts"

/** Two repos that one workspace cannot both be for. */
export interface OtherRepo {
  /** The URL of the repo that the workspace is for. */
  readonly repo: string
  /** The URL of the repo that was asked for. */
  readonly asked: string
}

/**
 * Compares the repos of two descriptions of one name. A workspace is for its repos: a description that names none of
 * them is meant for another workspace. Repos may be added and removed, and a workspace without any may get some.
 */
export const otherRepo = (known: WorkspaceSpec, asked: WorkspaceSpec): OtherRepo | undefined => {
  const [first] = known.repos
  const [wanted] = asked.repos
  if (first === undefined || wanted === undefined) return undefined
  const names = new Set(known.repos.map(nameOf))
  if (asked.repos.some((repo) => names.has(nameOf(repo)))) return undefined
  return { repo: first.url, asked: wanted.url }
}

export const otherRepoError = (
  { slug }: Pick<WorkspaceSpec, "slug">,
  { repo, asked }: OtherRepo,
): BerthError =>
  new BerthError("workspace.other_repo", `the workspace ${slug} is for another repo: ${repo}`, {
    details: { workspace: slug, repo, asked },
  })

/** Whether the workspace has this repo, at this ref and place. */
export const hasRepo = (known: WorkspaceSpec | undefined, { url, ref }: RepoSpec): boolean =>
  known?.repos.some((repo) => repo.url === url && repo.ref === ref) ?? false

/**
 * A repo's address in one form: paths and file URLs of the host are the same, and so are addresses with and without
 * `.git`.
 */
const nameOf = ({ url }: RepoSpec): string => {
  const source = sourceOf(url)
  const address = source.kind === "host" ? source.path : source.url
  return address.replace(/\/+$/, "").replace(/\.git$/, "")
}
