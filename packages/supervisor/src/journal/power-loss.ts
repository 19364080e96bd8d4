import { open, readFile, rename } from "node:fs/promises"
import { join } from "node:path"
import { syncDirectory } from "./directory.ts"
import { toJournalError } from "./fault.ts"

/** The file that says under which start of the machine the journal was written last, or that everything is on disk. */
const MARK = "machine"
const ALL_ON_DISK = "closed"

/** A file whose content differs after every start of the machine. */
const BOOT_ID = "/proc/sys/kernel/random/boot_id"

/** Identifies this start of the machine; a unique random id if the system does not tell. */
export const thisMachine = async (): Promise<string> => {
  try {
    return (await readFile(BOOT_ID, "utf8")).trim()
  } catch {
    return crypto.randomUUID()
  }
}

/** Whether a power loss may have taken bytes that were written but not synced. */
export const mayHaveLost = async (directory: string, machine: string): Promise<boolean> => {
  const mark = await readMark(directory)
  return mark !== machine && mark !== ALL_ON_DISK
}

const readMark = async (directory: string): Promise<string | undefined> => {
  const path = join(directory, MARK)
  try {
    return await readFile(path, "utf8")
  } catch (thrown) {
    if (thrown instanceof Error && "code" in thrown && thrown.code === "ENOENT") return undefined
    throw toJournalError(thrown, path)
  }
}

/** Notes this start of the machine. From here on, unsynced bytes are safe only until this machine stops. */
export const markOpen = async (directory: string, machine: string): Promise<void> => {
  if ((await readMark(directory)) !== machine) await mark(directory, machine)
}

/** Notes that everything is synced, and that nothing more is written. */
export const markClosed = (directory: string): Promise<void> => mark(directory, ALL_ON_DISK)

const mark = async (directory: string, text: string): Promise<void> => {
  const path = join(directory, MARK)
  try {
    const aside = await open(`${path}.new`, "w", 0o600)
    try {
      await aside.writeFile(text)
      await aside.sync()
    } finally {
      await aside.close()
    }
    await rename(`${path}.new`, path)
  } catch (thrown) {
    throw toJournalError(thrown, path)
  }
  await syncDirectory(directory)
}
