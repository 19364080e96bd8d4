import { open, rename, rm } from "node:fs/promises"
import type { BootTrace } from "@berth/protocol/boot"

/**
 * Leaves the trace as a file, whole or not at all: written aside, flushed, then renamed. What stood there
 * before is replaced.
 */
export const saveTrace = async (path: string, trace: BootTrace): Promise<void> => {
  const aside = `${path}.new`
  try {
    const file = await open(aside, "w", 0o640)
    try {
      await file.writeFile(`${JSON.stringify(trace, undefined, 2)}\n`)
      await file.datasync()
    } finally {
      await file.close()
    }
    await rename(aside, path)
  } catch (thrown) {
    await rm(aside, { force: true }).catch(() => {})
    throw thrown
  }
}
