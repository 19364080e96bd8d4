import { readdir } from "node:fs/promises"
import { hasCode } from "./records/files.ts"

/** The names in a directory, sorted; none if there is no such directory. */
export const namesIn = async (directory: string): Promise<string[]> => {
  try {
    return (await readdir(directory)).sort()
  } catch (thrown) {
    if (hasCode(thrown, "ENOENT") || hasCode(thrown, "ENOTDIR")) return []
    throw thrown
  }
}
