import { spawn } from "node:child_process"
import { once } from "node:events"
import { onTestFinished } from "vitest"

/** Starts a process without input, which ends with the test. */
export const startProcess = (
  file: string,
  args: readonly string[],
  { env, cwd }: { env: NodeJS.ProcessEnv; cwd: string },
) => {
  const child = spawn(file, args, { env, cwd, stdio: ["ignore", "pipe", "pipe"] })
  onTestFinished(() => void child.kill("SIGKILL"))
  const written = { stdout: "", stderr: "" }
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (text: string) => {
      written[name] += text
      child.emit("written")
    })
  const ended = once(child, "close").then(([status, signal]) => {
    child.emit("written")
    return { ...written, status: status ?? signal }
  })
  return {
    kill: (signal: NodeJS.Signals) => void child.kill(signal),
    /** The process's output, and its status or the signal that ended it. */
    ended,
    /** Resolves when the process has written these words. */
    see: async (words: string, name: keyof typeof written = "stdout"): Promise<void> => {
      while (!written[name].includes(words)) {
        if (child.exitCode !== null)
          throw new Error(`it ended without ${words}: ${JSON.stringify(written)}`)
        await once(child, "written")
      }
    },
  }
}
