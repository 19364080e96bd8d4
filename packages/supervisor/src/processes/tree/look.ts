import type { Marks } from "./mark.ts"
import { membersOf, suspectsOf, type TreeRoot } from "./members.ts"
import { isRunning, type ProcessEntry, type ProcessList } from "./proc.ts"

/** Reads the list of processes and their marks. */
export interface Eyes {
  /** Those that are older than the tree, as an earlier look saw them, need not be read again. */
  list(older: ReadonlyMap<number, ProcessEntry>): ProcessList
  /** Who of these carries the tree's mark. */
  marks(pids: readonly number[]): Promise<Marks>
}

/** Limit of looks. If processes come and go all the time no look is quiet; the last one counts then. */
const MAX_LOOKS = 10

/**
 * Finds the running members of a tree. An empty result is believed only after a quiet look, in which every process that
 * ended before it could be read was known from the look before. A process may fork and end while the list is being
 * read, so that neither it nor its child is in the list. The next list has the child.
 */
export const findMembers = async (
  root: TreeRoot,
  eyes: Eyes,
  supervisorPid: number,
): Promise<readonly ProcessEntry[]> => {
  const cleared = new Set<number>()
  let known: ReadonlySet<number> | undefined
  // None of them becomes a member. Their pids are not given out again between two looks: all others come first.
  let older: ReadonlyMap<number, ProcessEntry> = new Map()
  for (let look = 1; ; look++) {
    const { pids, entries, unseen } = eyes.list(older)
    const suspects = suspectsOf(root, entries, supervisorPid)
      .map(({ pid }) => pid)
      .filter((pid) => !cleared.has(pid))
    const { marked, gone } = await eyes.marks(suspects)
    const members = membersOf(root, entries, (pid) => marked.has(pid))
    if (members.length > 0 || look === MAX_LOOKS) return members
    const isKnown = (pid: number) => known?.has(pid) === true
    const isQuiet =
      gone.size === 0 &&
      unseen.every(isKnown) &&
      entries.every((entry) => isRunning(entry) || isKnown(entry.pid))
    if (known !== undefined && isQuiet) return []
    // A process never gets a mark later, so it is read once.
    for (const pid of suspects) if (!gone.has(pid)) cleared.add(pid)
    known = pids
    older = new Map(
      entries.flatMap((entry) =>
        entry.startTicks < root.startTicks ? [[entry.pid, entry] as const] : [],
      ),
    )
  }
}
