import { BerthError } from "@berth/protocol/errors"
import type { Clock } from "../processes/clock.ts"
import { describeExit } from "../processes/life.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import { runCommand } from "../processes/run.ts"
import type { User } from "../processes/user.ts"
import { namesBeside } from "./names.ts"

/** Time limit, for thousands of small files on a slow disk. */
export const COPY_LIMIT_MS = 120_000

/** A file or tree to copy, and where to. */
export interface Wanted {
  readonly source: string
  readonly place: string
  /** Whether an older copy or link of ours is at the place, to be replaced. */
  readonly replaces: boolean
  /** The source's fingerprint. */
  readonly fingerprint: string
}

export interface CopyParts {
  readonly clock: Clock
  readonly pipes?: Pipes
  readonly user: User | undefined
  /** PATH of the system's programs. */
  readonly path: string
}

/**
 * The shell script that copies. Its arguments are, for each file: source, place, the names beside it, whether it
 * replaces something, and the fingerprint. First everything is copied aside, which is where file systems refuse; on a
 * failure the copies are removed, and nothing has changed. Only then are they renamed into place, one after another.
 * `mv -n` never overwrites: a copy that is still aside afterwards found its place taken. A mark never stands beside a
 * copy that it does not describe, as it is written while the place is empty.
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

/** Removes trees. A half copy holds directories that their owner may not write to, so they are made writable first. */
const REMOVE = `
remove() {
  rm -rf -- "$@" 2>/dev/null || { chmod -R u+w -- "$@"; rm -rf -- "$@"; }
}
`

/** Copies to places where no link can be made. Whatever interrupts it, each place has a whole copy or none. */
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

/** Removes files that an interrupted boot left. */
export const removeLeftovers = (
  leftovers: readonly string[],
  parts: CopyParts,
  signal: AbortSignal,
): Promise<void> =>
  runAsUser("removing leftovers", `${REMOVE}remove "$@"`, leftovers, parts, signal)

/**
 * Runs a script as the user. Trees of the user's are changed with the user's own rights, so that nothing in the home
 * can make the script reach further.
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
