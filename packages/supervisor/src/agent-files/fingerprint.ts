import { constants } from "node:fs"
import { lstat, open, readdir, stat } from "node:fs/promises"
import { join } from "node:path"

/** Far beyond what an agent brings: whoever put that much there is not us. */
const MAX_FILES = 200_000
const MAX_BYTES = 2 * 1024 ** 3

/**
 * A hash over the names and contents below a path, or undefined where there is what no copy of ours holds.
 * In the toolbox links are followed, as by the copy. In a home they are not, and no pipe is waited for.
 */
export const fingerprint = async (
  path: string,
  { followLinks, signal }: { readonly followLinks: boolean; readonly signal: AbortSignal },
): Promise<string | undefined> => {
  const { createHash } = await import("node:crypto")
  const whole = createHash("sha256")
  let files = 0
  let bytes = 0

  const addFile = async (file: string, name: string): Promise<boolean> => {
    const flags = constants.O_RDONLY | constants.O_NONBLOCK
    const handle = await open(file, followLinks ? flags : flags | constants.O_NOFOLLOW)
    try {
      const found = await handle.stat()
      files += 1
      bytes += found.size
      if (!found.isFile() || files > MAX_FILES || bytes > MAX_BYTES) return false
      const content = createHash("sha256")
        .update(await handle.readFile())
        .digest("hex")
      whole.update(`${JSON.stringify(name)} ${content}\n`)
      return true
    } finally {
      await handle.close()
    }
  }

  const add = async (at: string, name: string): Promise<boolean> => {
    signal.throwIfAborted()
    const found = await (followLinks ? stat(at) : lstat(at))
    if (found.isFile()) return await addFile(at, name)
    if (!found.isDirectory()) return false
    for (const entry of (await readdir(at)).sort())
      if (!(await add(join(at, entry), `${name}/${entry}`))) return false
    return true
  }

  try {
    return (await add(path, "")) ? whole.digest("hex") : undefined
  } catch (thrown) {
    signal.throwIfAborted()
    if (followLinks) throw thrown
    return undefined
  }
}
