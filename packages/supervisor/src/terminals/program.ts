import { accessSync, constants } from "node:fs"

/** A command to run on a pty, and its directory. */
export interface Program {
  readonly command: readonly string[]
  readonly cwd: string
  /** The pty's path. */
  readonly path: string
}

/**
 * The shell script that runs a command on a pty. A session leader without a terminal gets the first one that it opens.
 * The directory is entered as the user, whose rights decide. `iutf8` makes the terminal erase a whole character at a
 * time; a system without `stty` lacks that.
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

/** The shell that every system has, used only if there is no better one. */
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
