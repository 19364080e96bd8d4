import { constants } from "node:fs"
import { lstat, open, readlink } from "node:fs/promises"
import { dirname, join, sep } from "node:path"
import type { AgentFile } from "../agents/agent.ts"
import type { User } from "../processes/user.ts"
import { fingerprint, type Size } from "./fingerprint.ts"
import { namesBeside } from "./names.ts"

export interface Roots {
  readonly toolbox: string
  readonly home: string
}

/**
 * The state of an agent file's place:
 *
 * absent       nothing is there
 * linked       the wanted link, owned by the user
 * copied       a copy of the wanted file
 * stale-link   another link of ours into the toolbox, perhaps to a file that is gone
 * stale-copy   a copy of ours from an earlier toolbox, which nobody changed
 * own          something of the user's
 */
export type Standing = "absent" | "linked" | "copied" | "stale-link" | "stale-copy" | "own"

export interface Sight {
  readonly file: AgentFile
  /** The link's target, and the source of a copy. */
  readonly source: string
  readonly place: string
  readonly standing: Standing
  /** Why the file is taken for the user's. */
  readonly reason: string
  /** Files beside it that an interrupted boot left. */
  readonly leftovers: readonly string[]
}

/**
 * Looks at the place of an agent's file, and changes nothing. The home belongs to the user, who may exchange anything
 * after the look: nothing that follows from it is done with more rights than the user has.
 */
export const lookAt = async (
  file: AgentFile,
  { toolbox, home }: Roots,
  { user, signal }: { readonly user: User | undefined; readonly signal: AbortSignal },
): Promise<Sight> => {
  const source = join(toolbox, file.from)
  const place = join(home, file.to)
  const blocked = await blockedBy(home, dirname(file.to))
  if (blocked !== undefined)
    return {
      file,
      source,
      place,
      standing: "own",
      leftovers: [],
      reason: `${blocked} is not a directory`,
    }
  const standing = await standingOf({ source, place, toolbox, user }, signal)
  const leftovers = await leftoversOf(place, standing)
  return { file, source, place, standing, reason: "it is the user's own", leftovers }
}

/** The first parent that is not a directory. A link to one does not count, as it may lead into a repo. */
const blockedBy = async (home: string, parents: string): Promise<string | undefined> => {
  let at = home
  for (const part of parents.split("/")) {
    if (part === ".") continue
    at = join(at, part)
    const found = await look(at)
    if (found === undefined) return undefined
    if (!found.isDirectory()) return at
  }
  return undefined
}

const standingOf = async (
  {
    source,
    place,
    toolbox,
    user,
  }: Omit<Roots, "home"> & Pick<Sight, "source" | "place"> & { user: User | undefined },
  signal: AbortSignal,
): Promise<Standing> => {
  const found = await look(place)
  if (found === undefined) return "absent"
  if (found.isSymbolicLink()) {
    const target = await readlink(place)
    // A link that is not owned by the user was not finished.
    if (target === source && (user === undefined || found.uid === user.uid)) return "linked"
    return target.startsWith(toolbox + sep) ? "stale-link" : "own"
  }
  const copied = await readMark(namesBeside(place).mark)
  if (copied === undefined) return "own"
  const ours = await fingerprint(source, { followLinks: true, signal })
  if (ours === undefined) return "own"
  if (copied === ours.hash) return "copied"
  const there = await fingerprint(place, { followLinks: false, signal, atMost: earlier(ours) })
  return copied === there?.hash ? "stale-copy" : "own"
}

/** Size limit of a copy from an earlier toolbox: twice the present size, and some more for small files. */
const earlier = ({ entries, bytes }: Size): Size => ({
  entries: 2 * entries + 100,
  bytes: 2 * bytes + 1024 ** 2,
})

/** Lists the leftovers. A mark is one if there is no copy that it could describe. */
const leftoversOf = async (place: string, standing: Standing): Promise<string[]> => {
  const { aside, old, mark } = namesBeside(place)
  const hasCopy = standing === "copied" || standing === "stale-copy" || standing === "own"
  const found: string[] = []
  for (const path of hasCopy ? [aside, old] : [aside, old, mark])
    if ((await look(path)) !== undefined) found.push(path)
  return found
}

/** Size of a mark: a hash in hexadecimal, and a newline. */
const MARK_BYTES = 65

const readMark = async (path: string): Promise<string | undefined> => {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(path, flags).catch(() => undefined)
  try {
    const read = await handle?.read(Buffer.alloc(MARK_BYTES), 0, MARK_BYTES, 0)
    const text = read?.buffer.toString("latin1", 0, read.bytesRead).trim() ?? ""
    return /^[0-9a-f]{64}$/.test(text) ? text : undefined
  } catch {
    return undefined
  } finally {
    await handle?.close()
  }
}

const look = (path: string) => lstat(path).catch(absentOrThrow)

const absentOrThrow = (thrown: NodeJS.ErrnoException): undefined => {
  if (thrown.code !== "ENOENT") throw thrown
}
