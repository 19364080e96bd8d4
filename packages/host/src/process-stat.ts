import { readFileSync } from "node:fs"

/** A process as the kernel lists it. A pid is used again, but never with the same start time. */
export interface ProcessStat {
  readonly pid: number
  readonly parentPid: number
  readonly sessionId: number
  readonly state: string
  /** Clock ticks between the machine's start and the process's. */
  readonly startTicks: number
}

/**
 * The process with this pid, also a zombie; undefined if there is none. Synchronous: the kernel answers from memory,
 * faster than another thread could be asked.
 */
export const readStat = (pid: number): ProcessStat | undefined => {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return undefined
  }
}

/** A zombie has ended, and waits for its parent to reap it. */
export const isRunning = ({ state }: ProcessStat): boolean => state !== "Z" && state !== "X"

/** Parses /proc/PID/stat. The name in its second field may hold spaces and parentheses, so it is cut off first. */
const parseStat = (stat: string): ProcessStat => {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ", 20)
  return {
    pid: Number.parseInt(stat, 10),
    parentPid: Number(fields[1]),
    sessionId: Number(fields[3]),
    state: fields[0] ?? "?",
    startTicks: Number(fields[19]),
  }
}
