import { open } from "node:fs/promises"

/** Makes new names and renames in a directory survive a power loss. */
export const syncDirectory = async (directory: string): Promise<void> => {
  await using handle = await open(directory, "r")
  await handle.sync()
}
