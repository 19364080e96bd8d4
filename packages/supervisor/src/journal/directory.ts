import { open } from "node:fs/promises"
import { toJournalError } from "./fault.ts"

/** Makes names that were added to or removed from a directory survive a power loss. */
export const syncDirectory = async (path: string): Promise<void> => {
  try {
    const handle = await open(path, "r")
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  } catch (thrown) {
    throw toJournalError(thrown, path)
  }
}
