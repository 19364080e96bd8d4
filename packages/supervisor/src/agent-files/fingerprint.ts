import { constants } from "node:fs"
import { type FileHandle, lstat, open, opendir, stat } from "node:fs/promises"
import { join } from "node:path"

/** The size of a tree. */
export interface Size {
  /** The number of files and directories. */
  readonly entries: number
  readonly bytes: number
}

export interface Print extends Size {
  readonly hash: string
}

/** Limits far beyond an agent's files: a larger tree was not put there by us. */
const MOST: Size = { entries: 200_000, bytes: 2 * 1024 ** 3 }
/** Size of one read, so that a large file takes no more memory than a small one. */
const CHUNK_BYTES = 256 * 1024

/**
 * Hashes the names and contents below a path. Returns undefined if there is something that no copy of ours contains, or
 * more than `atMost`, which is not read. In the toolbox links are followed, as by the copy. In a home they are not, and
 * named pipes are not waited for.
 */
export const fingerprint = async (
  path: string,
  {
    followLinks,
    signal,
    atMost = MOST,
  }: { readonly followLinks: boolean; readonly signal: AbortSignal; readonly atMost?: Size },
): Promise<Print | undefined> => {
  const { createHash } = await import("node:crypto")
  const whole = createHash("sha256")
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  let entries = 0
  let bytes = 0

  const addFile = async (file: string, name: string): Promise<boolean> => {
    const flags = constants.O_RDONLY | constants.O_NONBLOCK
    const handle = await open(file, followLinks ? flags : flags | constants.O_NOFOLLOW)
    try {
      const found = await handle.stat()
      bytes += found.size
      if (!found.isFile() || bytes > atMost.bytes) return false
      const content = await hashOf(handle, found.size)
      if (content === undefined) return false
      whole.update(`${JSON.stringify(name)} ${content}\n`)
      return true
    } finally {
      await handle.close()
    }
  }

  /** Hashes a file. Returns undefined if it grew meanwhile, as it may do so without end. */
  const hashOf = async (handle: FileHandle, size: number): Promise<string | undefined> => {
    const content = createHash("sha256")
    for (let read = 0; ; ) {
      signal.throwIfAborted()
      const { bytesRead } = await handle.read(chunk)
      if (bytesRead === 0) return content.digest("hex")
      read += bytesRead
      if (read > size) return undefined
      content.update(chunk.subarray(0, bytesRead))
    }
  }

  /** Reads the names in a directory, sorted; undefined if there are too many. */
  const namesIn = async (directory: string): Promise<string[] | undefined> => {
    const names: string[] = []
    for await (const { name } of await opendir(directory))
      if (entries + names.push(name) > atMost.entries) return undefined
    return names.sort()
  }

  const add = async (at: string, name: string): Promise<boolean> => {
    signal.throwIfAborted()
    entries += 1
    const found = await (followLinks ? stat(at) : lstat(at))
    if (found.isFile()) return await addFile(at, name)
    const names = found.isDirectory() ? await namesIn(at) : undefined
    if (names === undefined) return false
    for (const entry of names) if (!(await add(join(at, entry), `${name}/${entry}`))) return false
    return true
  }

  try {
    return (await add(path, "")) ? { hash: whole.digest("hex"), entries, bytes } : undefined
  } catch (thrown) {
    signal.throwIfAborted()
    if (followLinks) throw thrown
    return undefined
  }
}
