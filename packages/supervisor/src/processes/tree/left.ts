import { originOf } from "@berth/protocol/process-mark"
import { isRunning, type ProcessEntry } from "./proc.ts"

export interface Around {
  readonly supervisorPid: number
  /** The process that adopts orphans. */
  readonly firstPid: number
}

/**
 * The processes that outlived their parent: they descend from the first process, but not from the supervisor.
 * Everything that the supervisor runs descends from it.
 */
export const orphansOf = (
  entries: readonly ProcessEntry[],
  { supervisorPid, firstPid }: Around,
): ProcessEntry[] => {
  const byPid = new Map(entries.map((entry) => [entry.pid, entry]))
  const isOrphan = (entry: ProcessEntry): boolean => {
    // Remembers visited pids, so that a loop of pids reused while the list was read ends.
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
  /** The living children of the supervisor. Each leads a session of its own. */
  readonly leaders: ReadonlySet<number>
  /** Marks of the orphans and of their session leaders, by pid. */
  readonly marks: ReadonlyMap<number, string>
  /** Whether the process was there when the first prompt could run. */
  readonly isOfBoot: (entry: ProcessEntry) => boolean
}

/**
 * The orphans that hid their origin: neither their mark, nor their session, nor their parents tell who started them.
 */
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
 * The orphans whose starter is over and that would be lost with the sandbox.
 *
 * The mark decides first: a process of a prompt, a terminal or the agent counts; one of a hook, a sidecar or a command
 * does not. A process in the session of a living child of ours belongs to that child, except for the agent, which runs
 * its prompts' commands in its own session. A process without a mark (`env -i`, or a program that writes its title over
 * its environment) counts as its parent does. If nothing tells, it counts unless it is as old as the boot.
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
