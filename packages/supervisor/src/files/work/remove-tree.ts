import { constants } from "node:fs"
import { type FileHandle, lstat, open, opendir, rmdir, unlink } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { systemCode } from "./failure.ts"

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
/** Read at a time: what is removed is read anew from its beginning after every directory in it. */
const NAMES_AT_A_TIME = 32
const PARENT = Buffer.from("..")

/** Below what the supervisor lets this process be silent, and clients wait for an answer. */
const REMOVE_DEADLINE_MS = 50_000

/**
 * Like `removeTree`, for as long as one call may take. Files that are removed stay removed, so that the next call goes
 * on from there.
 */
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
 * Removes a directory with all that is in it, however deep and wide. It goes down and up by descriptors, one name at a
 * time, so that no path is too long, and remembers a number for each level alone: a directory that was emptied is met
 * again as an empty one from above.
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
      // A directory that was moved meanwhile has another one above it, in which nothing is to be removed.
      if ((await inodeOf(current)) !== wanted) throw moved()
    }
  } finally {
    await current.close()
  }
  await rmdir(target)
}

/** Removes what is in a directory, up to the first directory that is not empty, whose path is returned. */
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

/** False: there is something in it. */
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
