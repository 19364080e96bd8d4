import { BerthError } from "@berth/protocol/errors"
import { askGit, type GitParts, git, LOOK_DEADLINE_MS, TRANSFER_DEADLINE_MS } from "./git.ts"
import { type Target, trackingRef } from "./target.ts"

const FULL_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/
const SHORT_ID = /^[0-9a-f]{7,63}$/

/**
 * Resolves a ref, after a clone or a fetch of all branches: first as a branch, then as a commit's full id (which need
 * not be on a branch), then as any ref of the remote with that name, then as the start of an id.
 */
export const resolveRef = async (ref: string, cwd: string, parts: GitParts): Promise<Target> => {
  const branch = ref.replace(/^refs\/heads\//, "")
  if (branch !== ref || !ref.startsWith("refs/")) {
    const commit = await commitOf(trackingRef(branch), cwd, parts)
    if (commit !== undefined) return { commit, branch }
  }
  if (FULL_ID.test(ref)) await fetch(ref, cwd, parts)
  const name = FULL_ID.test(ref) ? ref : await fetchNamed(ref, cwd, parts)
  const commit = name === undefined ? undefined : await commitOf(name, cwd, parts)
  if (commit === undefined) throw unknown(ref, parts.repo)
  return { commit, branch: undefined }
}

/** The branch and the commit of the remote's HEAD. */
export const resolveRemoteHead = async (
  cwd: string,
  parts: GitParts,
): Promise<(Pick<Target, "branch"> & { readonly id: string }) | undefined> => {
  const args = ["ls-remote", "--symref", "origin", "HEAD"] as const
  const lines = (await git({ args, cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)).split("\n")
  const branch = lines
    .map((line) => /^ref: refs\/heads\/(\S+)\tHEAD$/.exec(line)?.[1])
    .find(Boolean)
  const id = lines.map((line) => /^([0-9a-f]+)\tHEAD$/.exec(line)?.[1]).find(Boolean)
  return id === undefined ? undefined : { branch, id }
}

export const commitOf = (
  revision: string,
  cwd: string,
  parts: GitParts,
): Promise<string | undefined> =>
  askGit(
    {
      args: ["rev-parse", "--quiet", "--verify", `${revision}^{commit}`],
      cwd,
      deadlineMs: LOOK_DEADLINE_MS,
    },
    parts,
  )

export const fetch = async (refspec: string, cwd: string, parts: GitParts): Promise<void> => {
  const args = ["fetch", "--no-tags", "--progress", "origin", refspec] as const
  await git({ args, cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
}

/** Fetches a tag, or a ref such as a pull request's. Returns its name in the local repo. */
const fetchNamed = async (
  ref: string,
  cwd: string,
  parts: GitParts,
): Promise<string | undefined> => {
  const candidates = ref.startsWith("refs/") ? [ref] : [`refs/tags/${ref}`, `refs/${ref}`]
  const args = ["ls-remote", "origin", ...candidates] as const
  const answer = await git({ args, cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
  const offered = answer.split("\n").map((line) => line.split("\t")[1])
  const found = candidates.find((candidate) => offered.includes(candidate))
  if (found === undefined) return SHORT_ID.test(ref) ? ref : undefined
  const here = found.startsWith("refs/tags/") ? found : trackingRef(found.slice("refs/".length))
  await fetch(`+${found}:${here}`, cwd, parts)
  return here
}

const unknown = (ref: string, repo: string): BerthError =>
  new BerthError("repo.ref_unknown", `${repo} has no branch, tag, commit or ref ${ref}`, {
    details: { repo, ref },
  })
