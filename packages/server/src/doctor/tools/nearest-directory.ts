import { stat } from "node:fs/promises"
import { dirname, resolve } from "node:path"

/** The directory itself, or the closest existing one above it: the file system on which it would be made. */
export const nearestDirectory = async (path: string): Promise<string> => {
  let candidate = resolve(path)
  while (!(await isDirectory(candidate))) candidate = dirname(candidate)
  return candidate
}

/** The root always counts as a directory, so that the search ends. */
const isDirectory = async (path: string): Promise<boolean> => {
  if (path === "/") return true
  try {
    return (await stat(path)).isDirectory()
  } catch {
    return false
  }
}
