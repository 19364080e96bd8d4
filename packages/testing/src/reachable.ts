import { statSync } from "node:fs"
import { dirname } from "node:path"

/** Lets everybody pass through a directory to what lies in it. */
const OTHERS_MAY_PASS = 0o001

/**
 * Fails a run as root whose checkout other users cannot reach: tests start programs of the checkout as users without
 * rights, and each would fail in its own words.
 */
export default (): void => {
  if (process.geteuid?.() !== 0) return
  const closed = closedAbove(process.execPath)
  if (closed !== undefined)
    throw new Error(
      `other users of this machine cannot enter ${closed}, so programs of this checkout cannot be started as them: chmod o+x '${closed}', or clone elsewhere`,
    )
}

/** The uppermost directory of the path that only its owner and group may pass. */
export const closedAbove = (path: string): string | undefined => {
  const directory = dirname(path)
  const above = directory === path ? undefined : closedAbove(directory)
  if (above !== undefined || directory === path) return above
  return (statSync(directory).mode & OTHERS_MAY_PASS) === 0 ? directory : undefined
}
