import { readFileSync } from "node:fs"
import { isRunning, readStat } from "@berth/host/process-stat"
import { z } from "zod"

/**
 * The lasting identity of a process: a pid is used again, but not with the same start time in the same boot of the
 * machine.
 */
export const ProcessIdentity = z.strictObject({
  pid: z.int().min(2),
  /** Clock ticks between the machine's start and the process's. */
  startTicks: z.int().min(0),
  bootId: z.string(),
})
export type ProcessIdentity = z.infer<typeof ProcessIdentity>

/**
 * The process that has this pid now; undefined if there is none, or only a zombie. Synchronous, like all that reads
 * /proc here: the kernel answers from memory, faster than another thread could be asked.
 */
export const identifyProcess = (pid: number): ProcessIdentity | undefined => {
  const stat = readStat(pid)
  if (stat === undefined || !isRunning(stat)) return undefined
  return { pid, startTicks: stat.startTicks, bootId: readBootId() }
}

export const isAlive = (identity: ProcessIdentity): boolean => {
  const now = identifyProcess(identity.pid)
  return now?.startTicks === identity.startTicks && now.bootId === identity.bootId
}

/** Sends a signal to exactly this process. Returns false if it is gone. */
export const signalProcess = (identity: ProcessIdentity, signal: NodeJS.Signals): boolean => {
  if (!isAlive(identity)) return false
  try {
    process.kill(identity.pid, signal)
    return true
  } catch {
    return false
  }
}

const readBootId = () => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
