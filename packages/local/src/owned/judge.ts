import type { Stats } from "node:fs"

/** The fault of a part of a path, and how a person mends it. */
export interface Flaw {
  readonly problem: string
  readonly mend: string
}

export interface Judge {
  /** The id of the caller. Root is trusted besides. */
  readonly uid: number
  /** Further users that may decide what lies there. */
  readonly trusts?: (uid: number) => boolean
  readonly isPrivateGroup: (gid: number, uid: number) => boolean
}

const GROUP_WRITES = 0o020
const OTHERS_WRITE = 0o002
const STICKY = 0o1000

/** Finds the fault that lets another user replace this entry. */
export const judgeOwner = (
  { uid }: Pick<Stats, "uid">,
  path: string,
  judge: Judge,
): Flaw | undefined => {
  if (uid === 0 || uid === judge.uid || judge.trusts?.(uid)) return undefined
  const trusted = judge.uid === 0 ? "root" : `root or user ${judge.uid}`
  return {
    problem: `${path} belongs to user ${uid}, not to ${trusted}`,
    mend: `name another place, or act as user ${uid}; if you trust what is there: chown -h ${judge.uid} ${quote(path)}`,
  }
}

/** Finds the fault that lets another user change the content of a file, or the entries of a directory. */
export const judgeWriters = (
  stats: Pick<Stats, "mode" | "uid" | "gid">,
  path: string,
  judge: Judge,
): Flaw | undefined => {
  const { mode, uid, gid } = stats
  const isShared = (mode & GROUP_WRITES) !== 0 && !judge.isPrivateGroup(gid, uid)
  if (!isShared && (mode & OTHERS_WRITE) === 0) return undefined
  const who = (mode & OTHERS_WRITE) === 0 ? `group ${gid}` : "every user"
  return {
    problem: `${who} may write to ${path}`,
    mend: `name another place, or, if nobody else needs to write there: chmod go-w ${quote(path)}`,
  }
}

/** Whether a directory is sticky: others may add entries, but not touch those that are not theirs. */
export const isSticky = ({ mode }: Pick<Stats, "mode">): boolean => (mode & STICKY) !== 0

const quote = (path: string): string =>
  /^[\w/.:@%+=,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`
