import { readdirSync, readFileSync } from "node:fs"
import { setTimeout as delay } from "node:timers/promises"

/** Time from SIGHUP to SIGKILL for the processes of a terminal that is closed. */
export const HANG_UP_GRACE_MS = 1_000
const LOOK_MS = 20

/**
 * Ends everything in a terminal's session: the shell and its jobs, in the foreground and in the background. A program
 * that is to outlive the terminal needs a session of its own (`setsid`).
 */
export const endSession = async (leader: number): Promise<void> => {
  signalAll(membersOf(leader), "SIGHUP")
  const untilMs = performance.now() + HANG_UP_GRACE_MS
  for (;;) {
    const left = membersOf(leader)
    if (left.length === 0) return
    if (performance.now() >= untilMs) return signalAll(left, "SIGKILL")
    await delay(LOOK_MS)
  }
}

const membersOf = (session: number): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => sessionOf(pid) === session)

/** A process's session; undefined if the process is gone, or a zombie. */
const sessionOf = (pid: number): number | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    const [state, , , session] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    return state === "Z" || state === "X" ? undefined : Number(session)
  } catch {
    return undefined
  }
}

const signalAll = (pids: readonly number[], signal: NodeJS.Signals): void => {
  for (const pid of pids)
    try {
      process.kill(pid, signal)
    } catch {}
}
