import { existsSync } from "node:fs"
import { dirname, join } from "node:path"

/** The top directory of the git repo around the working directory; undefined where there is none. */
export const repoHere = (): string | undefined => {
  for (let directory = process.cwd(); ; directory = dirname(directory)) {
    if (existsSync(join(directory, ".git"))) return directory
    if (directory === dirname(directory)) return undefined
  }
}
