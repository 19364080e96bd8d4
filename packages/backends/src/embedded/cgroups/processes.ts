import { join } from "node:path"
import { isFileError } from "./file-error.ts"
import { readIfThere, withNested } from "./files.ts"

/**
 * The processes in any of these cgroups and in those nested in them. A process on its way in, or one that was killed on
 * its way, is in some hierarchies only.
 */
export const processesIn = async (directories: readonly string[]): Promise<number[]> => {
  const trees = await Promise.all(directories.map(withNested))
  const lists = await Promise.all(trees.flat().map(processesOf))
  return [...new Set(lists.flat())]
}

const processesOf = async (directory: string): Promise<number[]> => {
  try {
    const text = (await readIfThere(join(directory, "cgroup.procs"))) ?? ""
    // A process outside of this pid namespace reads as 0, which no kill may ever see.
    return text
      .split("\n")
      .map(Number)
      .filter((pid) => pid > 0)
  } catch (error) {
    // A threaded v2 cgroup has threads only; their processes are in the cgroup above it.
    if (isFileError(error, "EOPNOTSUPP", "ENOTSUP")) return []
    throw error
  }
}
