import type { ChildProcess } from "node:child_process"
import { readFileSync } from "node:fs"
import { expect } from "vitest"

/*
 * Programs that stand still while they wait for a server, until it is there: on a busy machine a server from source may
 * take longer to start than they wait.
 */

const HALT = `process.kill(process.pid, "SIGSTOP")`

/** Arguments for Node, with which a command stands still once it has said that it waits for a server. */
export const HALT_AT_WAIT = [
  "--import",
  `data:text/javascript,${encodeURIComponent(`
    const { write } = process.stderr
    process.stderr.write = function (text, ...rest) {
      if (String(text).includes("waiting for a server")) setTimeout(() => ${HALT})
      return write.call(this, text, ...rest)
    }`)}`,
] as const

/** A statement of a program, with which it stands still while it waits. The time is less than that for which it waits. */
export const HALT_SOON = `setTimeout(() => ${HALT}, 200)`

/** Resolves when the process stands still. */
export const halted = ({ pid }: ChildProcess): Promise<void> =>
  expect.poll(() => stateOf(pid), { timeout: 60_000 }).toBe("T")

const stateOf = (pid: number | undefined): string => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  return stat.slice(stat.lastIndexOf(")") + 2)[0] ?? ""
}
