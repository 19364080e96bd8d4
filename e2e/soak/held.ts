import { readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"

/** A server that is busy collects its garbage late. */
const COLLECTED_WITHIN_MS = 10_000
const LOOK_EVERY_MS = 20

/** The variables by which a server tells the memory that it holds, in a file of this name and its own pid. */
export const heldVariables = (file: string): Record<string, string> => ({
  NODE_OPTIONS: `--expose-gc --require=${join(import.meta.dirname, "collect.cjs")}`,
  SOAK_HELD_FILE: file,
})

/**
 * Lets a server collect its garbage. Returns the megabytes that its code holds then; undefined: it is down, starts, or is
 * too busy.
 */
export const heldMbOf = async (pid: number, file: string): Promise<number | undefined> => {
  const before = linesOf(pid, file)
  // A server that has not opened its file does not know the signal, which would end it.
  if (before === undefined || !isSent(pid)) return undefined
  const endsAt = performance.now() + COLLECTED_WITHIN_MS
  while (performance.now() < endsAt) {
    const lines = linesOf(pid, file) ?? []
    if (lines.length > before.length) return toMb(Number(lines.at(-1)))
    await pause(LOOK_EVERY_MS)
  }
  return undefined
}

const linesOf = (pid: number, file: string): string[] | undefined => {
  try {
    return readFileSync(`${file}.${pid}`, "utf8").split("\n").slice(0, -1)
  } catch {
    return undefined
  }
}

const isSent = (pid: number): boolean => {
  try {
    return process.kill(pid, "SIGUSR2")
  } catch {
    return false
  }
}

const toMb = (bytes: number): number => Math.round((10 * bytes) / 1024 / 1024) / 10
