import { dirname } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { runCommand } from "../processes/run.ts"
import { gitFailure } from "./failure.ts"
import { type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"

/** Making, moving and removing take milliseconds; a half clone of a large repo takes longest to remove. */
export const FILES_DEADLINE_MS = 2 * 60_000

/**
 * What is done in the workspace besides git. All of it runs as the user whose workspace it is: whatever links
 * stand there lead nowhere that this user could not go anyway.
 */

/** absent: there is nothing, or an empty directory. other: something, and no repo. */
export type Place = "absent" | "repo" | "other"

const LOOK = `
if [ -e "$1/.git" ]; then echo repo
elif [ ! -e "$1" ] && [ ! -L "$1" ]; then echo absent
elif [ -d "$1" ] && [ -z "$(ls -A "$1")" ]; then echo absent
else echo other; fi`

export const lookAtPlace = async (path: string, parts: GitParts): Promise<Place> =>
  (await run(["sh", "-c", LOOK, "sh", path], parts)) as Place

/** Into its place at once, so that a repo is there whole or not at all. */
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
 * Removes what a git that was killed left in a repo: its locks, which would stop every later one, and files
 * that it had not finished. What is older than the supervisor is no living process's: it was the first here.
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

/** Adds to the commits at which a repo's history is cut: git then misses nothing before them. */
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
