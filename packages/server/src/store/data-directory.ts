import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { typedError } from "./typed-error.ts"

const ONLY_OWNER = 0o700

/** Makes the directory where it is missing. One that exists keeps the mode that its owner gave it. */
export const ensureDataDirectory = (dataDir: string): void => {
  try {
    ensureDirectory(resolve(dataDir))
  } catch (thrown) {
    throw NO_DIRECTORY_CODES.has(errnoCode(thrown))
      ? noDirectory(dataDir, thrown)
      : typedError(thrown, dataDir)
  }
}

/** Step by step: the recursive `mkdir` calls a read-only disk a missing directory. */
const ensureDirectory = (directory: string): void => {
  if (isDirectory(directory)) return
  const parent = dirname(directory)
  if (parent !== directory) ensureDirectory(parent)
  try {
    mkdirSync(directory, { mode: ONLY_OWNER })
  } catch (thrown) {
    // Another process may have made it in between.
    if (isDirectory(directory)) return
    throw thrown
  }
  syncIfReadable(parent)
}

/** A directory may allow new names and yet not be read, and then not be synced either. */
const syncIfReadable = (directory: string): void => {
  try {
    syncDirectory(directory)
  } catch (thrown) {
    if (errnoCode(thrown) !== "EACCES") throw thrown
  }
}

/** Makes a new name in the directory survive a power loss. */
export const syncDirectory = (directory: string): void => {
  const handle = openSync(directory, "r")
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

const isDirectory = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false

const NO_DIRECTORY_CODES: ReadonlySet<unknown> = new Set([
  "EEXIST",
  "ENOTDIR",
  "ELOOP",
  "ENAMETOOLONG",
  "ENOENT",
])

const errnoCode = (thrown: unknown): unknown => (thrown as NodeJS.ErrnoException).code

const noDirectory = (dataDir: string, cause: unknown): BerthError =>
  new BerthError("store.no_directory", `${dataDir} is not a directory, nor can it become one`, {
    details: { dataDir },
    cause,
  })
