import { readlinkSync } from "node:fs"
import { isRunning, listProcesses, type ProcessEntry } from "./proc.ts"
import { type Grove, signalProcess } from "./tree.ts"

const FIRST_PID = 1
/** The kernel's fixed number for the namespace of the whole machine (PROC_PID_INIT_INO). */
const MACHINE_NAMESPACE = "pid:[4026531836]"

/**
 * Everything in the sandbox but the first process and ourselves: what init systems end at shutdown, and
 * the one way that also finds a service that hid its origin. Undefined where the processes around us are
 * not ours to end: we are not the first process's child, or this is the machine itself.
 */
export const ownPidNamespace = (): Grove | undefined => {
  const isSandbox = process.ppid === FIRST_PID && namespace() !== MACHINE_NAMESPACE
  if (!isSandbox) return undefined
  return {
    find: async () => listProcesses().entries.filter(isOther),
    signal: (entries, signal) => {
      for (const entry of entries) signalProcess(entry, signal)
    },
  }
}

const isOther = (entry: ProcessEntry): boolean =>
  isRunning(entry) && entry.pid !== FIRST_PID && entry.pid !== process.pid

/** Unreadable counts as the machine's. */
const namespace = (): string => {
  try {
    return readlinkSync("/proc/self/ns/pid")
  } catch {
    return MACHINE_NAMESPACE
  }
}
