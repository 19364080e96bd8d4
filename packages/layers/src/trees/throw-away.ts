import { randomUUID } from "node:crypto"
import { rename } from "node:fs/promises"
import { basename, join } from "node:path"
import { hasCode, ioError } from "../io/io-error.ts"
import type { Layout } from "../io/layout.ts"

/** Moves a tree to the trash, where it is deleted later. Returns false if it is gone already. */
export const throwAway = async ({ trash }: Layout, directory: string): Promise<boolean> => {
  try {
    await rename(directory, join(trash, `${basename(directory)}-${randomUUID()}`))
    return true
  } catch (thrown) {
    if (hasCode(thrown, "ENOENT")) return false
    throw ioError(thrown, directory)
  }
}
