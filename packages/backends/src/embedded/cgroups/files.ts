import { closeSync, constants, mkdirSync, openSync, readFileSync, writeSync } from "node:fs"
import { readdir, rmdir } from "node:fs/promises"
import { join } from "node:path"
import { isFileError } from "./file-error.ts"

// Synchronous inside: the kernel answers from memory, faster than another thread could be asked.

/** Writes to a file of the kernel's. Never makes a file, and asks for no right to read. */
export const writeValue = async (path: string, value: string): Promise<void> => {
  const file = openSync(path, constants.O_WRONLY)
  try {
    writeSync(file, value)
  } finally {
    closeSync(file)
  }
}

/** The text of a file, or undefined where there is none, or its cgroup is being removed. */
export const readIfThere = async (path: string): Promise<string | undefined> => {
  try {
    return readFileSync(path, "utf8")
  } catch (error) {
    if (isFileError(error, "ENOENT", "ENODEV")) return undefined
    throw error
  }
}

/** Makes a directory. Returns whether this call made it. */
export const makeDirectory = async (path: string): Promise<boolean> => {
  try {
    mkdirSync(path)
    return true
  } catch (error) {
    if (isFileError(error, "EEXIST")) return false
    throw error
  }
}

/** Removes a cgroup. Returns false if it has processes or nested cgroups. A missing cgroup counts as removed. */
export const removeIfEmpty = async (path: string): Promise<boolean> => {
  try {
    await rmdir(path)
    return true
  } catch (error) {
    if (isFileError(error, "ENOENT")) return true
    if (isFileError(error, "EBUSY", "ENOTEMPTY")) return false
    throw error
  }
}

/** A cgroup with all that are nested in it, the innermost first; empty if there is none. */
export const withNested = async (path: string): Promise<string[]> => {
  try {
    const entries = await readdir(path, { withFileTypes: true })
    const nested = entries.filter((entry) => entry.isDirectory())
    const below = await Promise.all(nested.map((entry) => withNested(join(path, entry.name))))
    return [...below.flat(), path]
  } catch (error) {
    if (isFileError(error, "ENOENT", "ENODEV")) return []
    throw error
  }
}

/** The number after a word in a file of `word number` lines. */
export const fieldOf = (text: string, word: string): number | undefined => {
  const match = new RegExp(`^${word} (\\d+)$`, "m").exec(text)
  return match ? Number(match[1]) : undefined
}
