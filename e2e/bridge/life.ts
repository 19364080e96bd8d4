import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"

export interface Life {
  readonly child: ChildProcess
  readonly kill: () => Promise<void>
}

/** Starts a program of this folder, which the test can kill. Each line of its output is handed over. */
export const live = (
  program: "supervisor.ts" | "server.ts",
  args: readonly string[],
  onLine: (line: string) => void,
): Life => {
  const file = join(import.meta.dirname, program)
  const child = spawn(process.execPath, ["--conditions=source", file, ...args], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  const lines = createInterface({ input: child.stdout }).on("line", onLine)
  const ended = Promise.all([once(child, "close"), once(lines, "close")])
  return {
    child,
    kill: async () => {
      child.kill("SIGKILL")
      await ended
    },
  }
}
