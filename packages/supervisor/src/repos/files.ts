import { dirname } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { runCommand } from "../processes/run.ts"
import { gitFailure } from "./failure.ts"
import { type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"

/**
 * Time limit for making, moving and removing. These take milliseconds; removing a half clone of a large repo takes
 * longest.
 */
export const FILES_DEADLINE_MS = 2 * 60_000

/**
 * File operations in the workspace besides git. They all run as the workspace's user, so that a link there leads
 * nowhere that this user could not go anyway.
 */

/** "absent": nothing is there, or an empty directory. "other": something that is no repo. */
export type Place = "absent" | "repo" | "other"

const LOOK = `
if [ -e "$1/.git" ]; then echo repo
elif [ ! -e "$1" ] && [ ! -L "$1" ]; then echo absent
elif [ -d "$1" ] && [ -z "$(ls -A "$1")" ]; then echo absent
else echo other; fi`

export const lookAtPlace = async (path: string, parts: GitParts): Promise<Place> =>
  (await run(["sh", "-c", LOOK, "sh", path], parts)) as Place

/** Renames a repo into its place, so that it is there whole or not at all. */
export const moveIntoPlace = async (from: string, to: string, parts: GitParts): Promise<void> => {
  await makeDirectory(dirname(to), parts)
  await run(["mv", "-T", "--", from, to], parts)
}

export const makeDirectory = async (path: string, parts: GitParts): Promise<void> => {
  await run(["mkdir", "-p", "--", path], parts)
}

export const remove = async (path: string, parts: GitParts, deadlineMs?: number): Promise<void> => {
  await run(["rm", "-rf", "--", path], parts, deadlineMs)
}

/**
 * Removes files that a killed git left in a repo: locks, which would stop every later git, and unfinished objects.
 * Files older than the supervisor belong to no living process, as the supervisor was the first in the sandbox.
 */
export const removeLeftovers = async (
  repo: string,
  bornAt: Date,
  parts: GitParts,
): Promise<readonly string[]> => {
  const names = ["-name", "*.lock", "-o", "-path", "*/objects/*", "-name", "tmp_*"]
  const old = ["!", "-newermt", bornAt.toISOString()]
  const what = ["-type", "f", ...old, "(", ...names, ")", "-print", "-delete"]
  const answer = await run(["find", `${repo}/.git/`, ...what], parts)
  return answer.split("\n").filter((line) => line !== "")
}

/** Adds commits at which a repo's history is cut, so that git does not miss their parents. */
export const noteShallow = async (
  cwd: string,
  commits: readonly string[],
  parts: GitParts,
): Promise<void> => {
  if (commits.length === 0) return
  const find = ["rev-parse", "--path-format=absolute", "--git-path", "shallow"] as const
  const file = await git({ args: find, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  await run(["sh", "-c", NOTE_SHALLOW, "sh", file, ...commits], parts)
}

const NOTE_SHALLOW = `
file=$1; shift
{ cat "$file" 2>/dev/null; printf '%s\\n' "$@"; } | sort -u > "$file.new" && mv -T -- "$file.new" "$file"`

const run = async (
  command: readonly [string, ...string[]],
  { repo, user, environment, clock, pipes, signal, onOutput }: GitParts,
  deadlineMs = FILES_DEADLINE_MS,
): Promise<string> => {
  const title = `${command[0]} for ${repo}`
  const end = await runCommand(
    { title, command, env: environment, cwd: "/", user, deadlineMs, capture: {} },
    { clock, pipes, signal, onOutput },
  )
  if (end.status !== 0) throw gitFailure(title, end)
  return end.stdout.trim()
}

export const taken = (repo: string, path: string): BerthError =>
  new BerthError("repo.directory_taken", `${path} is not empty and not a git repo`, {
    details: { repo, path },
  })
