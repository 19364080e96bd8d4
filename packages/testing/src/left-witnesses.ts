import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** Servers keep a note of their last commit here, and the next server of the data directory removes it. */
const MEMORY = "/dev/shm"
const NOTE = /^berth-[0-9a-f]{20}$/

/** Removes the notes of servers that the run has killed, and whose data directories it has removed. */
export default (): (() => void) => {
  const temporary = join(tmpdir(), "/")
  return () => {
    const names = existsSync(MEMORY) ? readdirSync(MEMORY) : []
    for (const name of names.filter((it) => NOTE.test(it))) {
      const dataDir = dataDirOf(join(MEMORY, name))
      const isLeft = dataDir.startsWith(temporary) && !existsSync(join(dataDir, "berth.db"))
      if (isLeft) rmSync(join(MEMORY, name), { force: true })
    }
  }
}

const dataDirOf = (note: string): string => {
  try {
    return readFileSync(note, "utf8").split("\n")[2] ?? ""
  } catch {
    // Another run has removed it, or it belongs to another user.
    return ""
  }
}
