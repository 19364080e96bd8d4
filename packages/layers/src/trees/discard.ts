import { type Removal, removeTree } from "@berth/host/remove-tree"
import { BerthError } from "@berth/protocol/errors"
import { programError } from "../io/io-error.ts"

/** Deletes a tree, however large, but never what happens to be mounted in it. */
export const discardTree = async (directory: string, options: Removal = {}): Promise<void> => {
  try {
    await removeTree(directory, options)
  } catch (thrown) {
    options.signal?.throwIfAborted()
    throw thrown instanceof BerthError
      ? thrown
      : programError("rm", directory, (thrown as Error).message)
  }
}
