import { constants } from "node:fs"
import { mkdir, open } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"

/** Everyone may enter the directory, nobody may write to it. */
const EMPTY_MODE = 0o555

/**
 * Makes a directory outside of every repo that stays empty; it may exist from an earlier start. It lies beside the
 * logs, where only root may write: in a place of the user's, a name could become a link before its mode is set.
 */
export const makeEmptyDirectory = async (path: string): Promise<string> => {
  try {
    await mkdir(path, { mode: EMPTY_MODE }).catch(unlessThere)
    const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
    const directory = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    try {
      // Sets the bits that the umask removed.
      await directory.chmod(EMPTY_MODE)
    } finally {
      await directory.close()
    }
    return path
  } catch (cause) {
    throw new BerthError("process.start_failed", `no directory can be made at ${path}`, {
      details: { path },
      cause,
    })
  }
}

const unlessThere = (thrown: NodeJS.ErrnoException): void => {
  if (thrown.code !== "EEXIST") throw thrown
}
