import { readdirSync, readFileSync } from "node:fs"

/** A process as the kernel lists it. A pid is reused, but never with the same start time. */
export interface ProcessEntry {
  readonly pid: number
  readonly parentPid: number
  readonly groupId: number
  readonly sessionId: number
  /** Clock ticks from the machine's start to the process's start. */
  readonly startTicks: number
  readonly state: string
  /** Whether it is a kernel thread, which belongs to nobody and has neither arguments nor environment. */
  readonly isKernel: boolean
}

/** The PF_KTHREAD bit of the flags. */
const KERNEL_THREAD = 0x0020_0000

/** Reads the process with this pid, also a zombie; undefined if there is none. */
export const readProcess = (pid: number): ProcessEntry | undefined => {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return undefined
  }
}

/** All processes, or those that may belong to a tree. Trees that look together share all but their entries. */
export interface ProcessList {
  /** The pids of all processes when the list was read. */
  readonly pids: ReadonlySet<number>
  /** The processes that could still be read then, zombies included. */
  readonly entries: readonly ProcessEntry[]
  /** The pids of processes that ended before they could be read. */
  readonly unseen: readonly number[]
}

/** Every process that is visible here. Reading `stat` never waits, unlike most files beside it. Those in `known` are not read. */
export const listProcesses = (
  known: ReadonlyMap<number, ProcessEntry> = new Map(),
): ProcessList => {
  const pids = readdirSync("/proc")
    .filter((name) => isPid.test(name))
    .map(Number)
  const entries: ProcessEntry[] = []
  const unseen: number[] = []
  for (const pid of pids) {
    const entry = known.get(pid) ?? readProcess(pid)
    if (entry === undefined) unseen.push(pid)
    else entries.push(entry)
  }
  return { pids: new Set(pids), entries, unseen }
}

/** Whether the process has not ended. A zombie has ended, and waits for its parent to reap it. */
export const isRunning = ({ state }: ProcessEntry): boolean => state !== "Z" && state !== "X"

/** Identifies this process, as opposed to a later one with its pid. */
export const idOf = ({ pid, startTicks }: ProcessEntry): string => `${pid}/${startTicks}`

/** Whether this very process still runs, as opposed to a later one with its pid. */
export const stillRuns = ({ pid, startTicks }: ProcessEntry): boolean => {
  const now = readProcess(pid)
  return now?.startTicks === startTicks && isRunning(now)
}

/** Parses `/proc/PID/stat`. The name in the second field may contain spaces and parentheses, so it is cut off first. */
export const parseStat = (stat: string): ProcessEntry => {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ", 20)
  return {
    pid: Number.parseInt(stat, 10),
    parentPid: Number(fields[1]),
    groupId: Number(fields[2]),
    sessionId: Number(fields[3]),
    startTicks: Number(fields[19]),
    state: fields[0] ?? "?",
    isKernel: (Number(fields[6]) & KERNEL_THREAD) !== 0,
  }
}

const isPid = /^[1-9][0-9]*$/
