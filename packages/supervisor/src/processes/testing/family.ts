import { randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { environmentOf } from "@berth/testing/environments"
import { isRunning, readProcess } from "../tree/proc.ts"

const VARIABLE = "BERTH_TEST_FAMILY"

/** The processes of one test, recognized by an environment variable that the code under test ignores. */
export class Family {
  readonly #id = randomUUID()
  readonly #sinceTicks = nowTicks()
  readonly env: Readonly<Record<string, string>> = {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    [VARIABLE]: this.#id,
  }

  /** The pids of the processes that run now, wherever they moved. */
  running(): number[] {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => this.#has(pid))
  }

  /** Ends the processes that a failed test left. */
  killAll(): void {
    for (const pid of this.running())
      try {
        process.kill(pid, "SIGKILL")
      } catch {}
  }

  #has(pid: number): boolean {
    try {
      const entry = readProcess(pid)
      if (entry === undefined || !isRunning(entry) || entry.startTicks < this.#sinceTicks)
        return false
      return environmentOf(pid).includes(`${VARIABLE}=${this.#id}`)
    } catch {
      return false
    }
  }
}

/** The time since the machine's start, in the kernel's ticks, of which a second has a hundred. */
const nowTicks = (): number =>
  Math.floor(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 100)

/** Children of this very process that ended and were not waited for. */
export const zombies = (): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProcess(Number(name)))
    .filter((entry) => entry?.state === "Z" && entry.parentPid === process.pid)
    .map((entry) => entry?.pid as number)
