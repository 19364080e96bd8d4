import { readFileSync, statSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { findMarks } from "@berth/host/marked"
import { isRunning, type ProcessStat, readStat } from "@berth/host/process-stat"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { ListerOf } from "../state/groups.ts"

export interface EndProcesses {
  readonly sandbox: SandboxId
  /** The form of the marks of the processes to end. */
  readonly marks: string
  /** Whether a mark of that form is meant. Default: every one is. */
  readonly isMeant?: (mark: string) => boolean
  readonly signal: AbortSignal
}

/**
 * The time to find them. SIGKILL works at once, but a sandbox may fork all the time or delay who reads it, and a host may
 * be busy.
 */
const END_WITHIN_MS = 8_000
const LOOK_AGAIN_MS = 10

/** An empty look is believed when it is the second: a process that forked and ended during the first had a child. */
const QUIET_LOOKS = 2

/** The kernel counts the start times of processes in hundredths of a second, on every machine. */
const TICKS_PER_SECOND = 100

/**
 * Kills processes of a sandbox from outside, with all that came from them; the others go on, its supervisor too. For
 * a sandbox whose supervisor does not answer. Returns how many; undefined: this host does not have its processes, or
 * does not show them to the server's user. Fails if some may be left; then it can be called again.
 *
 * The processes are listed by the sandbox's cgroups, which no process inside can leave. A process that left its session
 * and its parent, and hid its mark, is not found. It lives until the sandbox ends.
 */
export const openEndProcesses =
  (listerOf: ListerOf) =>
  async ({ sandbox, marks: form, isMeant, signal }: EndProcesses): Promise<number | undefined> => {
    const list = await listerOf(sandbox)
    if (list === undefined) return undefined
    const inTime = AbortSignal.any([signal, timeoutSignal(END_WITHIN_MS)])
    const marks = new OwnMarks(ticksNow(), isMeant)
    const killed = new Set<string>()
    let unread: ReadonlySet<string> = new Set()
    /** Returns whether there was nothing to kill. */
    const look = async (): Promise<boolean> => {
      // Read before the marks, so that a mark is that of the process that was listed, or of none.
      const entries = (await list()).flatMap((pid) => readStat(pid) ?? [])
      const unmarked = entries.filter((entry) => isRunning(entry) && !marks.has(entry))
      const apart = unmarked.filter((entry) => unread.has(idOf(entry)))
      const found = await findMarks({
        pids: pidsOf(unmarked),
        apart: new Set(pidsOf(apart)),
        marks: form,
        signal: inTime,
      })
      unread = new Set(unmarked.filter(({ pid }) => found.unread.has(pid)).map(idOf))
      marks.add(unmarked, found.marks)
      // A frozen process that was killed ends when it goes on.
      const left = membersOf(entries, (entry) => marks.has(entry)).filter(
        (entry) => !killed.has(idOf(entry)),
      )
      for (const entry of left) if (kill(entry)) killed.add(idOf(entry))
      return left.length === 0
    }
    for (let quiet = 0; quiet < QUIET_LOOKS; ) {
      quiet = (await look()) ? quiet + 1 : 0
      await pause(LOOK_AGAIN_MS, undefined, { signal: inTime })
    }
    if (killed.size > 0) return killed.size
    if (unread.size > 0)
      throw new BerthError("internal", `${unread.size} processes of ${sandbox} cannot be read`)
    return (await list()).some(isHidden) ? undefined : 0
  }

/**
 * The marks of processes that ran when the search began. A sandbox that answers meanwhile may start its agent again: that
 * one has a mark of its own, and is spared.
 */
class OwnMarks {
  readonly #beganTicks: number
  readonly #isMeant: (mark: string) => boolean
  readonly #marks = new Set<string>()
  readonly #owners = new Set<string>()

  constructor(beganTicks: number, isMeant: (mark: string) => boolean = () => true) {
    this.#beganTicks = beganTicks
    this.#isMeant = isMeant
  }

  /** Whether the process was found with such a mark. Others are asked again: one that replaces itself shows none. */
  has(entry: ProcessStat): boolean {
    return this.#owners.has(idOf(entry))
  }

  add(entries: readonly ProcessStat[], found: ReadonlyMap<number, string>): void {
    for (const { pid, startTicks } of entries) {
      const mark = found.get(pid)
      if (mark === undefined || startTicks > this.#beganTicks) continue
      if (this.#isMeant(mark)) this.#marks.add(mark)
    }
    for (const entry of entries)
      if (this.#marks.has(found.get(entry.pid) ?? "")) this.#owners.add(idOf(entry))
  }
}

const ticksNow = (): number =>
  Math.round(Number.parseFloat(readFileSync("/proc/uptime", "utf8")) * TICKS_PER_SECOND)

const pidsOf = (entries: readonly ProcessStat[]): number[] => entries.map(({ pid }) => pid)

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
