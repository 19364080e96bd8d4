import { posix } from "node:path"
import { fileURLToPath } from "node:url"
import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { BerthError } from "@berth/protocol/errors"
import { RelativePath } from "@berth/protocol/paths"
import type { RepoSpec } from "@berth/protocol/workspace"

/** The repos of a workspace, as its sandboxes are told of them. */
export interface WorkspaceRepos {
  readonly planned: readonly PlannedRepo[]
  /** Where those of the host lie, by their directory in the plan: no sandbox is told. */
  readonly hostPaths: ReadonlyMap<string, string>
}

/** A path or a file URL is a repo of the host; everything else git reaches from inside. */
export const workspaceRepos = (repos: readonly RepoSpec[]): WorkspaceRepos => {
  const planned: PlannedRepo[] = []
  const hostPaths = new Map<string, string>()
  for (const [index, { url, ref, directory = directoryOf(url, index) }] of repos.entries()) {
    const clash = planned.find((other) => overlaps(other.directory, directory))
    if (clash !== undefined)
      throw invalid(index, `${directory} and ${clash.directory} would lie in each other`)
    const path = hostPath(url, index)
    if (path !== undefined) hostPaths.set(directory, path)
    const source = path === undefined ? { kind: "remote" as const, url } : { kind: "host" as const }
    planned.push({ directory, source, ...(ref !== undefined && { ref }) })
  }
  return { planned, hostPaths }
}

/** The URL's last part, as git names a clone. */
const directoryOf = (url: string, index: number): string => {
  const name = posix.basename(url.replace(/[/:]+$/, "").replaceAll(":", "/"), ".git")
  const parsed = RelativePath.safeParse(name)
  if (parsed.success) return parsed.data
  throw invalid(index, `${url} does not say what its directory is called: name one`)
}

const hostPath = (url: string, index: number): string | undefined => {
  if (url.startsWith("/")) return url
  if (!url.startsWith("file:")) return undefined
  try {
    return fileURLToPath(url)
  } catch (cause) {
    throw invalid(index, `${url} names no path of this host`, cause)
  }
}

const overlaps = (one: string, other: string): boolean =>
  one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`)

const invalid = (index: number, problem: string, cause?: unknown): BerthError =>
  new BerthError("input.invalid", problem, { details: { path: `repos.${index}` }, cause })
