import { readlinkSync } from "node:fs"
import { isRunning, listProcesses, type ProcessEntry } from "./proc.ts"
import { type Grove, signalProcess } from "./tree.ts"

const FIRST_PID = 1
/** The kernel's fixed inode number of the machine's own pid namespace (PROC_PID_INIT_INO). */
const MACHINE_NAMESPACE = "pid:[4026531836]"

/**
 * All processes of the sandbox except the first one and ourselves, as an init system would end them at shutdown. Only
 * this also finds a service that hid its origin. Undefined if the processes around us are not ours to end: we are not
 * the first process's child, or this is the machine's own namespace.
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

/** Our pid namespace. If it cannot be read, the machine's own is assumed. */
const namespace = (): string => {
  try {
    return readlinkSync("/proc/self/ns/pid")
  } catch {
    return MACHINE_NAMESPACE
  }
}
