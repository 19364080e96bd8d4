import { isRunning, type ProcessEntry } from "./proc.ts"

/** The process that a tree descends from. It leads a session and group of its own. */
export interface TreeRoot {
  readonly pid: number
  readonly startTicks: number
}

/**
 * The running members of a tree: the root, its session and group, the processes with its mark, and all descendants of
 * these.
 */
export const membersOf = (
  root: TreeRoot,
  entries: readonly ProcessEntry[],
  isMarked: (pid: number) => boolean,
): ProcessEntry[] => {
  const later = entries.filter(({ startTicks }) => startTicks >= root.startTicks)
  const isSession = isReused(root, entries) ? () => false : inSessionOf(root)
  const members = new Set(later.filter((entry) => isSession(entry) || isMarked(entry.pid)))
  const children = Map.groupBy(later, ({ parentPid }) => parentPid)
  for (const member of members)
    for (const child of children.get(member.pid) ?? []) members.add(child)
  return [...members].filter(isRunning)
}

/**
 * Processes that may have left the tree, so that only their mark can tell. They are no older than the root, and descend
 * from no child of the supervisor: a process that leaves a tree is adopted by the first process, so one below another
 * child of ours belongs to that child.
 */
export const suspectsOf = (
  root: TreeRoot,
  entries: readonly ProcessEntry[],
  supervisorPid: number,
): ProcessEntry[] => {
  const members = new Set(membersOf(root, entries, () => false).map(({ pid }) => pid))
  const byPid = new Map(entries.map((entry) => [entry.pid, entry]))
  const isBelowUs = (entry: ProcessEntry): boolean => {
    for (let at: ProcessEntry | undefined = entry; at; at = byPid.get(at.parentPid))
      if (at.pid === supervisorPid) return true
    return false
  }
  return entries.filter(
    (entry) =>
      isRunning(entry) &&
      !entry.isKernel &&
      entry.startTicks >= root.startTicks &&
      !members.has(entry.pid) &&
      !isBelowUs(entry),
  )
}

/**
 * Whether another process has the root's pid. The kernel reuses a pid only when no process has it as its session or
 * group, so the root's session is empty then, and a session of that number is a stranger's.
 */
const isReused = ({ pid, startTicks }: TreeRoot, entries: readonly ProcessEntry[]): boolean =>
  entries.some((entry) => entry.pid === pid && entry.startTicks !== startTicks)

const inSessionOf =
  ({ pid }: TreeRoot) =>
  ({ sessionId, groupId }: ProcessEntry): boolean =>
    sessionId === pid || groupId === pid
