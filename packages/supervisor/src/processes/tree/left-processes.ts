import { readFileSync } from "node:fs"
import { type Clock, pause } from "../clock.ts"
import type { User } from "../user.ts"
import { type Around, hiddenOf, leftOf, orphansOf } from "./left.ts"
import { readMarks } from "./mark.ts"
import { idOf, isRunning, listProcesses, type ProcessEntry, type ProcessList } from "./proc.ts"

/** Limit of looks. If processes come and go all the time no look is quiet; the last one counts then. */
const MAX_LOOKS = 10
/** Pause after a look, as a multiple of its duration: at most a tenth of the time is spent on looking. */
const PAUSES = 9
const LONGEST_PAUSE_MS = 1_000

export interface LeftProcessesParts {
  readonly clock: Clock
  /** The sandbox's user; undefined: the supervisor's own. */
  readonly user: User | undefined
  /** The processes (by `idOf`) that ran when the first prompt became possible; undefined: no prompt can run yet. */
  readonly bootProcesses: () => ReadonlySet<string> | undefined
}

/** Counts the processes of the sandbox's user that outlive what started them. */
export class LeftProcesses {
  readonly #parts: LeftProcessesParts
  /** Marks of processes, by `idOf`; null: it has none. A process never gets a mark later, so it is read once. */
  #marks = new Map<string, string | null>()
  #nextAtMs = 0
  #looking: Promise<unknown> = Promise.resolve()
  #next: Promise<number> | undefined

  constructor(parts: LeftProcessesParts) {
    this.#parts = parts
  }

  /** Counts at a moment after the call. A look serves every caller that came before it began. */
  count(): Promise<number> {
    if (this.#next !== undefined) return this.#next
    const next = this.#looking.then(() => this.#countInTime())
    this.#next = next
    this.#looking = next.catch(() => {})
    return next
  }

  async #countInTime(): Promise<number> {
    const { clock } = this.#parts
    const never = new AbortController().signal
    await pause(clock, Math.max(0, this.#nextAtMs - clock.nowMs()), never)
    this.#next = undefined
    const beganAtMs = clock.nowMs()
    try {
      return await this.#count()
    } finally {
      const tookMs = clock.nowMs() - beganAtMs
      this.#nextAtMs = clock.nowMs() + Math.min(PAUSES * tookMs, LONGEST_PAUSE_MS)
    }
  }

  /**
   * Counts until a look is quiet or finds processes. A process may fork and end while the list is being read, so that
   * neither it nor its child is seen. The next list has the child.
   */
  async #count(): Promise<number> {
    let known: ReadonlySet<number> | undefined
    for (let look = 1; ; look++) {
      const list = listProcesses()
      const { left, gone } = await this.#look(list)
      const running = new Set(list.entries.filter(isRunning).map(({ pid }) => pid))
      const isQuiet =
        gone.size === 0 && [...list.pids].every((pid) => running.has(pid) || known?.has(pid))
      if (left > 0 || isQuiet || look === MAX_LOOKS) return left
      known = list.pids
    }
  }

  async #look({ entries }: ProcessList): Promise<{ left: number; gone: ReadonlySet<number> }> {
    const around: Around = { supervisorPid: process.pid, firstPid: process.ppid }
    const orphans = orphansOf(entries, around)
    const sessions = new Set(orphans.map(({ sessionId }) => sessionId))
    const ours = entries.filter(({ parentPid }) => parentPid === around.supervisorPid)
    const leaders = ours.filter(({ pid }) => sessions.has(pid))
    const { marks, gone } = await this.#readMarks([...orphans, ...leaders])
    const boot = this.#parts.bootProcesses()
    const left = leftOf(
      orphans.filter(({ pid }) => !gone.has(pid)),
      {
        firstPid: around.firstPid,
        leaders: new Set(leaders.map(({ pid }) => pid)),
        marks,
        isOfBoot: (entry) => boot?.has(idOf(entry)) ?? true,
      },
    )
    return { left: left.filter((entry) => this.#isUsers(entry)).length, gone }
  }

  async #readMarks(
    entries: readonly ProcessEntry[],
  ): Promise<{ marks: ReadonlyMap<number, string>; gone: ReadonlySet<number> }> {
    const unread = entries.filter((entry) => !this.#marks.has(idOf(entry)))
    const read = await readMarks(
      unread.map(({ pid }) => pid),
      this.#parts.user,
    )
    const known = new Map<string, string | null>()
    const marks = new Map<number, string>()
    for (const entry of entries) {
      if (read.gone.has(entry.pid)) continue
      const mark = this.#marks.get(idOf(entry)) ?? read.marks.get(entry.pid) ?? null
      known.set(idOf(entry), mark)
      if (mark !== null) marks.set(entry.pid, mark)
    }
    this.#marks = known
    return { marks, gone: read.gone }
  }

  #isUsers({ pid }: ProcessEntry): boolean {
    const uid = this.#parts.user?.uid ?? process.getuid?.()
    return uid === uidOf(pid)
  }
}

/** Finds running processes that outlived their parent and hid who started them. */
export const findHidden = async (user: User | undefined): Promise<ProcessEntry[]> => {
  const { entries } = listProcesses()
  const around: Around = { supervisorPid: process.pid, firstPid: process.ppid }
  const orphans = orphansOf(entries, around)
  const ours = entries.filter(({ parentPid }) => parentPid === around.supervisorPid)
  const { marks, gone } = await readMarks(
    orphans.map(({ pid }) => pid),
    user,
  )
  return hiddenOf(
    orphans.filter(({ pid }) => !gone.has(pid)),
    { firstPid: around.firstPid, leaders: new Set(ours.map(({ pid }) => pid)), marks },
  )
}

/**
 * The process's user; undefined if it has ended. Read from `status`, as the directory's owner differs for a process
 * that may not be traced.
 */
const uidOf = (pid: number): number | undefined => {
  try {
    const [, uid] = /^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1")) ?? []
    return uid === undefined ? undefined : Number(uid)
  } catch {
    return undefined
  }
}
