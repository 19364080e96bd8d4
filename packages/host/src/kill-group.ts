import type { ChildProcess } from "node:child_process"

/**
 * Kills the process group that a child leads. A group outlives its leader, and as long as it has a member no process
 * gets the leader's pid. So once the child has ended, a process with that pid is someone else's, and so may be the
 * group.
 */
export const killGroup = ({
  pid,
  exitCode,
  signalCode,
}: Pick<ChildProcess, "pid" | "exitCode" | "signalCode">): void => {
  if (pid === undefined) return
  const hasEnded = exitCode !== null || signalCode !== null
  if (hasEnded && isTaken(pid)) return
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // The group has no process left.
  }
}

const isTaken = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code !== "ESRCH"
  }
}
