import { readdirSync } from "node:fs"
import { hasCode } from "./io-error.ts"

/**
 * The names in a directory of the store itself, sorted; none if there is no such directory. Read at once, as records are:
 * such directories are small, and a start reads two of each workspace.
 */
export const namesIn = async (directory: string): Promise<string[]> => {
  try {
    return readdirSync(directory).sort()
  } catch (thrown) {
    if (hasCode(thrown, "ENOENT") || hasCode(thrown, "ENOTDIR")) return []
    throw thrown
  }
}
