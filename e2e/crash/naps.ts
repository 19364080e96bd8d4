import { randomInt } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"

/** A `sleep` of its own length, by which the host finds it among the processes of all sandboxes. */
export class Nap {
  readonly command = ["sleep", `${1_000_000 + randomInt(1_000_000_000)}`] as const

  toString(): string {
    return this.command.join(" ")
  }

  get isRunning(): boolean {
    return startedAs((line) => line === `${this}`) !== undefined
  }
}

/** The process on this host with such a command line. A process that has ended has none. */
export const startedAs = (isMeant: (line: string) => boolean): number | undefined => {
  const found = readdirSync("/proc").find((name) => /^\d+$/.test(name) && isMeant(lineOf(name)))
  return found === undefined ? undefined : Number(found)
}

const lineOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trimEnd()
  } catch {
    return ""
  }
}
