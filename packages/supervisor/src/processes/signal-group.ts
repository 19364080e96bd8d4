/** Signals a process group with one call, so that no fork slips through. Does nothing if the group is empty. */
export const signalGroup = (leader: number, signal: NodeJS.Signals): void => send(-leader, signal)

/** Signals one process. Does nothing if it has ended, or may not be signalled. */
export const signalPid = (pid: number, signal: NodeJS.Signals): void => send(pid, signal)

const send = (target: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(target, signal)
  } catch {
    // The next look at the processes shows what runs.
  }
}
