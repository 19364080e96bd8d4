import { resolve } from "node:path"
import { ensureOwnedDirectory } from "@berth/local/owned/directory"
import { BerthError } from "@berth/protocol/errors"
import { typedError } from "./typed-error.ts"

/**
 * Makes the directory where it is missing. An existing one keeps the mode that its owner gave it, and is refused where
 * another user could have put something into it or could exchange it: whoever writes there decides what the server
 * does.
 */
export const ensureDataDirectory = (dataDir: string): void => {
  try {
    ensureOwnedDirectory(resolve(dataDir))
  } catch (thrown) {
    throw NO_DIRECTORY_CODES.has(errnoCode(thrown))
      ? noDirectory(dataDir, thrown)
      : typedError(thrown, dataDir)
  }
}

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
