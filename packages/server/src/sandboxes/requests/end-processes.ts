import { statSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import type { SandboxId } from "@berth/protocol/ids"
import { findMarked } from "../../host/marked.ts"
import { isRunning, type ProcessStat, readStat } from "../../host/process-stat.ts"
import type { ListerOf } from "../state/groups.ts"

export interface EndProcesses {
  readonly sandbox: SandboxId
  /** The form of the marks of the processes to end. */
  readonly marks: string
  readonly signal: AbortSignal
}

/** The time to find them. SIGKILL works at once, but a sandbox may fork all the time, and a host may be busy. */
const END_WITHIN_MS = 2_000
const LOOK_AGAIN_MS = 10

/** An empty look is believed when it is the second: a process that forked and ended during the first had a child. */
const QUIET_LOOKS = 2

/**
 * Kills processes of a sandbox from outside, with all that came from them; the others go on, its supervisor too. For
 * a sandbox whose supervisor does not answer. Returns how many; undefined: this host does not have its processes, or
 * does not show them to the server's user.
 *
 * A process that left its session and its parent, and hid its mark, is not found. It lives until the sandbox ends.
 */
export const openEndProcesses =
  (listerOf: ListerOf) =>
  async ({ sandbox, marks, signal }: EndProcesses): Promise<number | undefined> => {
    const list = await listerOf(sandbox)
    if (list === undefined) return undefined
    const overdue = AbortSignal.timeout(END_WITHIN_MS)
    const inTime = AbortSignal.any([signal, overdue])
    /** The processes that were found with the mark. The others are asked again: one that replaces itself shows none. */
    const marked = new Set<string>()
    const killed = new Set<string>()
    /** Returns whether there was nothing to kill. */
    const look = async (): Promise<boolean> => {
      // Read before the marks, so that a mark is that of the process that was listed, or of none.
      const entries = (await list()).flatMap((pid) => readStat(pid) ?? [])
      const unmarked = entries.filter((entry) => isRunning(entry) && !marked.has(idOf(entry)))
      const pids = unmarked.map(({ pid }) => pid)
      const found = await findMarked(pids, marks, inTime)
      for (const entry of unmarked) if (found.has(entry.pid)) marked.add(idOf(entry))
      // A frozen process that was killed ends when it goes on.
      const left = membersOf(entries, (entry) => marked.has(idOf(entry))).filter(
        (entry) => !killed.has(idOf(entry)),
      )
      for (const entry of left) if (kill(entry)) killed.add(idOf(entry))
      return left.length === 0
    }
    try {
      for (let quiet = 0; quiet < QUIET_LOOKS; ) {
        quiet = (await look()) ? quiet + 1 : 0
        await pause(LOOK_AGAIN_MS, undefined, { signal: inTime })
      }
    } catch (thrown) {
      if (!overdue.aborted || killed.size === 0) throw thrown
    }
    return killed.size === 0 && (await list()).some(isHidden) ? undefined : killed.size
  }

/** The running processes that are marked, those in a session that one of them leads, and all descendants of these. */
export const membersOf = (
  entries: readonly ProcessStat[],
  isMarked: (entry: ProcessStat) => boolean,
): ProcessStat[] => {
  const marked = new Set(entries.filter(isMarked).map(({ pid }) => pid))
  const members = new Set(
    entries.filter(({ pid, sessionId }) => marked.has(pid) || marked.has(sessionId)),
  )
  const children = Map.groupBy(entries, ({ parentPid }) => parentPid)
  for (const { pid } of members) for (const child of children.get(pid) ?? []) members.add(child)
  return [...members].filter(isRunning)
}

/** Checks that the process still runs, so that a later one with the same pid is spared. */
const kill = (entry: ProcessStat): boolean => {
  const now = readStat(entry.pid)
  if (now?.startTicks !== entry.startTicks || !isRunning(now)) return false
  try {
    return process.kill(entry.pid, "SIGKILL")
  } catch {
    return false
  }
}

/** Whether the process's mark is kept from the server: the kernel shows it to the process's own user, and to root. */
const isHidden = (pid: number): boolean => {
  const own = process.geteuid?.() ?? 0
  const owner = statSync(`/proc/${pid}/environ`, { throwIfNoEntry: false })?.uid ?? own
  return own !== 0 && owner !== own
}

const idOf = ({ pid, startTicks }: ProcessStat): string => `${pid}/${startTicks}`
