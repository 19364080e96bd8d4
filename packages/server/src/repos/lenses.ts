import { execFile } from "node:child_process"
import { lstat, mkdtemp, readdir, rm, rmdir } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { PLAIN_ENV } from "@berth/host/child"
import { processStart } from "@berth/local/lock-holder"
import { refuseForeignEntry } from "@berth/local/owned/entry"

/** The name of a lens tells which process made it: its pid, and the clock tick at which it started. */
const NAME = /^berth-bundle-(\d+)-(\d+)-[\w-]+$/

/** Makes a directory for a lens, which a later server removes if this process is killed. */
export const makeLensDirectory = async (): Promise<string> => {
  const root = tmpdir()
  // Git obeys the settings in a lens, so nobody else may exchange it.
  refuseForeignEntry(root)
  return await mkdtemp(join(root, `berth-bundle-${process.pid}-${tickOf(process.pid) ?? 0}-`))
}

/**
 * The directory of a lens for objects that git fetched for a partial clone. It belongs to the repo's owner, who may
 * exchange any name in it.
 */
export const FETCHED = "fetched"

/** The deadline of a removal. A fetched pack of gigabytes takes less. */
const REMOVE_DEADLINE_MS = 60_000

/** Removes a lens. Files of another user in it are removed as that user: root follows no name of theirs. */
export const removeLens = async (lens: string): Promise<void> => {
  const fetched = join(lens, FETCHED)
  const stats = await lstat(fetched).catch(() => undefined)
  if (stats !== undefined && stats.uid !== process.geteuid?.()) {
    const { uid, gid } = stats
    const how = { uid, gid, cwd: "/", env: PLAIN_ENV, timeout: REMOVE_DEADLINE_MS }
    // The directory itself is removed below: its owner may not write to the one above. By then it is empty.
    const contents = ["-mindepth", "1", "-delete"]
    await promisify(execFile)("find", [fetched, ...contents], how).catch(() => {})
    await rmdir(fetched)
  }
  await rm(lens, { recursive: true, force: true })
}

/** Removes lenses of killed servers of this user. */
export const sweepLenses = async (): Promise<void> => {
  const root = tmpdir()
  for (const name of await readdir(root).catch((): string[] => [])) {
    const [, pid, tick] = NAME.exec(name) ?? []
    if (pid === undefined || tickOf(Number(pid)) === tick) continue
    const path = join(root, name)
    const stats = await lstat(path).catch(() => undefined)
    // Entries of that name that other users made stay.
    if (!stats?.isDirectory() || stats.uid !== process.geteuid?.()) continue
    await removeLens(path).catch(() => {})
  }
}

const tickOf = (pid: number): string | undefined => processStart(pid)?.split("/")[1]
