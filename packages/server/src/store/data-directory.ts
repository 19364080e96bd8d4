import { closeSync, fsyncSync, mkdirSync, openSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { typedError } from "./typed-error.ts"

const ONLY_OWNER = 0o700

/** Makes the directory where it is missing. One that exists keeps the mode that its owner gave it. */
export const ensureDataDirectory = (dataDir: string): void => {
  try {
    const firstMade = mkdirSync(dataDir, { recursive: true, mode: ONLY_OWNER })
    if (firstMade !== undefined) syncParents(resolve(dataDir), dirname(firstMade))
  } catch (thrown) {
    throw isNoDirectory(thrown) ? noDirectory(dataDir, thrown) : typedError(thrown, dataDir)
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

/** Syncs the parents of a new directory, up to the one that was there before. */
const syncParents = (directory: string, lastParent: string): void => {
  const parent = dirname(directory)
  syncDirectory(parent)
  if (parent !== lastParent && parent !== directory) syncParents(parent, lastParent)
}

const NO_DIRECTORY_CODES = new Set(["EEXIST", "ENOTDIR", "ELOOP", "ENAMETOOLONG", "ENOENT"])

const isNoDirectory = (thrown: unknown): boolean =>
  thrown instanceof Error &&
  "code" in thrown &&
  typeof thrown.code === "string" &&
  NO_DIRECTORY_CODES.has(thrown.code)

const noDirectory = (dataDir: string, cause: unknown): BerthError =>
  new BerthError("store.no_directory", `${dataDir} is not a directory, nor can it become one`, {
    details: { dataDir },
    cause,
  })
