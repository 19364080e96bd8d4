import { constants } from "node:fs"
import { type FileHandle, lstat, open, opendir, rmdir, unlink } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { systemCode } from "./failure.ts"

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** Number of names to read at a time. A directory is read anew from its start after every subdirectory in it. */
const NAMES_AT_A_TIME = 32
const PARENT = Buffer.from("..")

/**
 * Time limit, below the silence that the supervisor allows this process and the time that clients wait for an answer.
 */
const REMOVE_DEADLINE_MS = 50_000

/** Like `removeTree`, with a time limit. Removed files stay removed, so the next call continues from there. */
export const removeInTime = async (
  target: Buffer,
  signal: AbortSignal,
  deadlineMs = REMOVE_DEADLINE_MS,
): Promise<void> => {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(tooMuch(deadlineMs)), deadlineMs)
  try {
    await removeTree(target, AbortSignal.any([signal, late.signal]))
  } finally {
    clearTimeout(timer)
  }
}

const tooMuch = (deadlineMs: number): BerthError =>
  new BerthError(
    "deadline.exceeded",
    `there is more in it than can be removed within ${deadlineMs / 1_000} s: remove it again, which goes on from here`,
    { details: { deadlineMs } },
  )

/**
 * Removes a directory with everything in it, however deep and wide. It moves down and up by descriptors, one name at a
 * time, so that no path is too long, and remembers only an inode number for each level. An emptied directory is removed
 * when it is met again from above.
 */
export const removeTree = async (target: Buffer, signal: AbortSignal): Promise<void> => {
  let current = await open(target, DIRECTORY)
  const inodes = [await inodeOf(current)]
  try {
    for (;;) {
      signal.throwIfAborted()
      const below = await emptyOut(current, signal)
      if (below !== undefined) {
        const entered = await open(below, DIRECTORY).catch(unlessGone)
        if (entered === undefined) continue
        await current.close()
        current = entered
        inodes.push(await inodeOf(current))
        continue
      }
      inodes.pop()
      const wanted = inodes.at(-1)
      if (wanted === undefined) break
      const above = await open(within(current, PARENT), DIRECTORY)
      await current.close()
      current = above
      // If the directory was moved meanwhile, `..` is another directory, in which nothing may be removed.
      if ((await inodeOf(current)) !== wanted) throw moved()
    }
  } finally {
    await current.close()
  }
  await rmdir(target)
}

/** Removes the entries of a directory. Stops at the first subdirectory that is not empty, and returns its path. */
const emptyOut = async (
  directory: FileHandle,
  signal: AbortSignal,
): Promise<Buffer | undefined> => {
  // @types/node knows names as text only.
  const options = { encoding: "buffer" as never, bufferSize: NAMES_AT_A_TIME }
  for await (const { name } of await opendir(`/proc/self/fd/${directory.fd}`, options)) {
    signal.throwIfAborted()
    const path = within(directory, name as unknown as Buffer)
    const found = await lstat(path).catch(unlessGone)
    if (found === undefined) continue
    if (!found.isDirectory()) await unlink(path).catch(unlessGone)
    else if (!(await isRemoved(path))) return path
  }
  return undefined
}

/** Removes a directory. Returns false if it is not empty. */
const isRemoved = async (path: Buffer): Promise<boolean> => {
  try {
    await rmdir(path)
  } catch (thrown) {
    if (systemCode(thrown) === "ENOTEMPTY") return false
    if (systemCode(thrown) !== "ENOENT") throw thrown
  }
  return true
}

const within = ({ fd }: FileHandle, name: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), name])

const inodeOf = async (directory: FileHandle): Promise<bigint> =>
  (await directory.stat({ bigint: true })).ino

const moved = (): Error =>
  Object.assign(new Error("a directory was moved while it was removed"), { code: "EBUSY" })

const unlessGone = (thrown: unknown): undefined => {
  if (systemCode(thrown) !== "ENOENT") throw thrown
}
