import { originOf } from "./mark.ts"
import { isRunning, type ProcessEntry } from "./proc.ts"

export interface Around {
  readonly supervisorPid: number
  /** Whoever adopts processes whose parent has ended. */
  readonly firstPid: number
}

/**
 * Those that outlived their parent: they hang below the first process, but not below the supervisor. All that the
 * supervisor runs hangs below it, with what it has running in turn.
 */
export const orphansOf = (
  entries: readonly ProcessEntry[],
  { supervisorPid, firstPid }: Around,
): ProcessEntry[] => {
  const byPid = new Map(entries.map((entry) => [entry.pid, entry]))
  const isOrphan = (entry: ProcessEntry): boolean => {
    // A loop of pids that were used again while the list was read has an end, too.
    const passed = new Set<number>()
    let at: ProcessEntry | undefined = entry
    while (at && at.pid !== supervisorPid && !passed.has(at.pid)) {
      if (at.parentPid === firstPid) return true
      passed.add(at.pid)
      at = byPid.get(at.parentPid)
    }
    return false
  }
  return entries.filter((entry) => isRunning(entry) && !entry.isKernel && isOrphan(entry))
}

export interface Origins {
  readonly firstPid: number
  /** The supervisor's children that live: each leads a session of its own. */
  readonly leaders: ReadonlySet<number>
  /** Of the orphans, and of those that lead their sessions. */
  readonly marks: ReadonlyMap<number, string>
  /** Whether it was there when the first prompt could run. */
  readonly isOfBoot: (entry: ProcessEntry) => boolean
}

/** The orphans that hid their origin: neither they, nor their session, nor their parents tell who started them. */
export const hiddenOf = (
  orphans: readonly ProcessEntry[],
  { firstPid, leaders, marks }: Omit<Origins, "isOfBoot">,
): ProcessEntry[] => {
  const byPid = new Map(orphans.map((entry) => [entry.pid, entry]))
  const isHidden = (entry: ProcessEntry): boolean => {
    if (leaders.has(entry.sessionId) || marks.has(entry.pid)) return false
    const parent = entry.parentPid === firstPid ? undefined : byPid.get(entry.parentPid)
    return parent === undefined || isHidden(parent)
  }
  return orphans.filter(isHidden)
}

/**
 * Which of the orphans are left of what is over, and would be lost with the sandbox.
 *
 * By their mark: what a prompt, a terminal or the agent started is, what a hook, a sidecar or a command started is
 * not. What is still in the session of a child of ours belongs to that one, as long as it runs; but for the agent,
 * which runs its prompts' commands in its own. Without a mark (`env -i`, or a program that writes its title over
 * its environment) it is what its parent is; and where nothing tells, it is left, unless it is as old as the boot.
 */
export const leftOf = (
  orphans: readonly ProcessEntry[],
  { firstPid, leaders, marks, isOfBoot }: Origins,
): ProcessEntry[] => {
  const byPid = new Map(orphans.map((entry) => [entry.pid, entry]))
  const isLeft = (entry: ProcessEntry): boolean => {
    const mark = marks.get(entry.pid)
    if (leaders.has(entry.sessionId))
      return originOf(mark ?? marks.get(entry.sessionId)) === "agent"
    if (mark !== undefined) return originOf(mark) !== undefined
    const parent = entry.parentPid === firstPid ? undefined : byPid.get(entry.parentPid)
    return parent === undefined ? !isOfBoot(entry) : isLeft(parent)
  }
  return orphans.filter(isLeft)
}
