import { BerthError } from "@berth/protocol/errors"
import { removeTree } from "../../host/remove-tree.ts"
import { programError } from "../io-error.ts"

/** Deletes a tree, however large; never what happens to be mounted in it. */
export const discardTree = async (directory: string, signal?: AbortSignal): Promise<void> => {
  try {
    await removeTree(directory, signal)
  } catch (thrown) {
    signal?.throwIfAborted()
    throw thrown instanceof BerthError
      ? thrown
      : programError("rm", directory, (thrown as Error).message)
  }
}
