import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"

export interface Life {
  readonly child: ChildProcess
  readonly kill: () => Promise<void>
}

/** A program of this folder, killed and started again at will. Every line that it says is handed over. */
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
