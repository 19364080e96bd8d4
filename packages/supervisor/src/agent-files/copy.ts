import { BerthError } from "@berth/protocol/errors"
import type { Clock } from "../processes/clock.ts"
import { describeExit } from "../processes/life.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import { runCommand } from "../processes/run.ts"
import type { User } from "../processes/user.ts"
import { namesBeside } from "./names.ts"

/** Thousands of small files on a slow disk. */
export const COPY_LIMIT_MS = 120_000

/** What to put where. */
export interface Wanted {
  readonly source: string
  readonly place: string
  /** Whether there is something of ours at the place, to be replaced. */
  readonly replaces: boolean
  /** Of the source. */
  readonly fingerprint: string
}

export interface CopyParts {
  readonly clock: Clock
  readonly pipes?: Pipes
  readonly user: User | undefined
  /** Where the system's programs are found. */
  readonly path: string
}

/**
 * Called with, for each file, its source, its place, the names beside it, whether it replaces something, and
 * its fingerprint. First everything is copied aside, which is where file systems refuse: then what was
 * made is removed, and nothing has happened. Only then is one after another renamed to its place; `-n` never
 * overwrites, and what is still aside afterwards found the place taken. A mark never stands beside a copy that
 * it does not tell of: it is written while the place is empty.
 */
const COPY = `
prepare() {
  remove "$3" "$4"
  mkdir -p -- "\${2%/*}" && cp -RL -- "$1" "$3" && chmod -R u+w -- "$3"
}
settle() {
  if [ "$6" = replaces ]; then mv -T -- "$2" "$4" || return; fi
  printf '%s\\n' "$7" > "$5" || return
  mv -nT -- "$3" "$2"
  if [ -e "$3" ]; then
    rm -f -- "$5"
    echo "something was put at $2 meanwhile"
    return 1
  fi
  remove "$4"
}
drop() {
  remove "$3"
}
each() {
  work=$1
  shift
  while [ $# -gt 0 ]; do
    "$work" "$1" "$2" "$3" "$4" "$5" "$6" "$7" || return
    shift 7
  done
}
each prepare "$@" && each settle "$@" || { each drop "$@"; exit 1; }
`

/** A half copy holds directories that their owner may not write, so that one must be made to. */
const REMOVE = `
remove() {
  rm -rf -- "$@" 2>/dev/null || { chmod -R u+w -- "$@"; rm -rf -- "$@"; }
}
`

/** Copies to where no link can be made. Whatever comes in between, each place has a whole copy or none. */
export const copyAll = (
  wanted: readonly Wanted[],
  parts: CopyParts,
  signal: AbortSignal,
): Promise<void> => {
  const args = wanted.flatMap(({ source, place, replaces, fingerprint }) => {
    const { aside, old, mark } = namesBeside(place)
    return [source, place, aside, old, mark, replaces ? "replaces" : "adds", fingerprint]
  })
  return runAsUser("copying agent files", REMOVE + COPY, args, parts, signal)
}

/** Removes what an earlier boot left when it was cut short. */
export const removeLeftovers = (
  leftovers: readonly string[],
  parts: CopyParts,
  signal: AbortSignal,
): Promise<void> =>
  runAsUser("removing leftovers", `${REMOVE}remove "$@"`, leftovers, parts, signal)

/**
 * Trees of the user's are changed with the user's own rights, so that nothing in the home can make it reach
 * further.
 */
const runAsUser = async (
  title: string,
  script: string,
  args: readonly string[],
  { clock, pipes, user, path }: CopyParts,
  signal: AbortSignal,
): Promise<void> => {
  const end = await runCommand(
    {
      title,
      command: ["/bin/sh", "-c", script, "sh", ...args],
      env: { PATH: path, LC_ALL: "C" },
      cwd: "/",
      user,
      deadlineMs: COPY_LIMIT_MS,
    },
    { clock, pipes, signal },
  )
  if (end.status === 0) return
  const said = end.lastOutput.trim() || describeExit(end)
  throw new BerthError("agent_files.failed", `${title} failed: ${said}`, { details: { said } })
}
