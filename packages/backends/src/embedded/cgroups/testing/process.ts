import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { onTestFinished } from "vitest"
import type { Cgroup } from "../cgroups.ts"

const JOIN_THEN_RUN = `
count=$1; shift
while [ "$count" -gt 0 ]; do echo 0 > "$1" || exit 125; shift; count=$((count - 1)); done
exec "$@"`

export interface Inside {
  readonly pid: number
  readonly child: ChildProcess
  /** Resolves with the next line that the program prints. */
  readonly nextLine: () => Promise<string>
  /** The program's exit code or signal. */
  readonly ended: Promise<{ code: number | null; signal: string | null }>
}

/** Starts a program that is in the cgroup from its first instruction on. */
const runInside = (cgroup: Cgroup, command: readonly string[]): Inside => {
  const { joinFiles } = cgroup
  const args = ["-c", JOIN_THEN_RUN, "sh", `${joinFiles.length}`, ...joinFiles, ...command]
  const child = spawn("/bin/sh", args, { stdio: ["ignore", "pipe", "ignore"] })
  onTestFinished(() => {
    child.kill("SIGKILL")
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    pid: child.pid ?? 0,
    child,
    nextLine: async () => (await lines.next()).value ?? "",
    ended: once(child, "exit").then(([code, signal]) => ({ code, signal })),
  }
}

/** Runs a shell script inside. Prints "ready" when it has joined the cgroup. */
export const shellInside = async (cgroup: Cgroup, script: string): Promise<Inside> => {
  const inside = runInside(cgroup, ["/bin/sh", "-c", `echo ready\n${script}`])
  await inside.nextLine()
  return inside
}

/** Runs a shell script in no cgroup of ours, to its end. */
export const runOutside = async (script: string): Promise<void> => {
  await once(spawn("/bin/sh", ["-c", script], { stdio: "ignore" }), "exit")
}
