import { lstat, mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { refuseForeignEntry } from "../owned/entry.ts"
import { processStart } from "../store/lock-holder.ts"

/** The name says which process made it: its number, and the clock tick at which it started. */
const NAME = /^berth-bundle-(\d+)-(\d+)-[\w-]+$/

/** Makes a directory for a lens, which a later server removes if this process is killed. */
export const makeLensDirectory = async (): Promise<string> => {
  const root = tmpdir()
  // Git obeys the settings in it: nobody else may exchange it.
  refuseForeignEntry(root)
  return await mkdtemp(join(root, `berth-bundle-${process.pid}-${tickOf(process.pid) ?? 0}-`))
}

/** Removes what servers of this user that were killed have left. */
export const sweepLenses = async (): Promise<void> => {
  const root = tmpdir()
  for (const name of await readdir(root).catch((): string[] => [])) {
    const [, pid, tick] = NAME.exec(name) ?? []
    if (pid === undefined || tickOf(Number(pid)) === tick) continue
    const path = join(root, name)
    const stats = await lstat(path).catch(() => undefined)
    // Others may make entries of that name, and theirs stay.
    if (!stats?.isDirectory() || stats.uid !== process.geteuid?.()) continue
    await rm(path, { recursive: true, force: true }).catch(() => {})
  }
}

const tickOf = (pid: number): string | undefined => processStart(pid)?.split("/")[1]
