import { isRunning, type ProcessEntry } from "./proc.ts"

/** The process that a tree grew from: leader of its own session and group. */
export interface TreeRoot {
  readonly pid: number
  readonly startTicks: number
}

/**
 * Who belongs to a tree: the root, its session and group, those that carry its mark, and all descendants
 * of these. Ended ones are left out.
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
 * Those that may have left the tree, so that only their mark can tell: they are no older than the root, and
 * hang below no child of the supervisor. What has left a tree is adopted by the first process, so whatever
 * hangs below another child of ours belongs to that one.
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
 * The kernel gives a pid out again only when no process has it as its session or group either: if another
 * process has the root's pid, the root's session is empty, and one of that number is a stranger's.
 */
const isReused = ({ pid, startTicks }: TreeRoot, entries: readonly ProcessEntry[]): boolean =>
  entries.some((entry) => entry.pid === pid && entry.startTicks !== startTicks)

const inSessionOf =
  ({ pid }: TreeRoot) =>
  ({ sessionId, groupId }: ProcessEntry): boolean =>
    sessionId === pid || groupId === pid
