import { accessSync, constants } from "node:fs"

/** What runs on a pty: the command, in its directory. */
export interface Program {
  readonly command: readonly string[]
  readonly cwd: string
  /** Of the pty. */
  readonly path: string
}

/**
 * Puts a command on a pty: the leader of a session that has no terminal gets the first one that it opens. The
 * directory is entered as the user, whose rights decide. What is typed is UTF-8, so that a whole character is
 * erased at a time; a system without `stty` does without.
 */
const ENTER = `exec 0<>"$1" 1>&0 2>&0 || exit 126
stty iutf8 2>/dev/null
cd -- "$2" || exit 126
shift 2
exec "$@"`

export const onPty = ({ command, cwd, path }: Program): [string, ...string[]] => [
  ...(["/bin/sh", "-c", ENTER, "sh", path, cwd] as const),
  ...command,
]

/** Every system has this one, so it is taken only where there is nothing better. */
const LAST_SHELL = "/bin/sh"

export const shellOf = (env: Readonly<Record<string, string>>): string =>
  [env.SHELL, "/bin/bash"].find((path) => path !== LAST_SHELL && canRun(path)) ?? LAST_SHELL

const canRun = (path: string | undefined): boolean => {
  try {
    accessSync(path ?? "", constants.X_OK)
    return true
  } catch {
    return false
  }
}
