import { spawn } from "node:child_process"
import { once } from "node:events"

/** Runs a command to its end, and discards its output. Throws unless it exits with 0. */
export async function runCommand(
  command: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const child = spawn(command, args, { stdio: "ignore", signal, killSignal: "SIGKILL" })
  const [status, killedBy] = await once(child, "exit")
  if (status !== 0)
    throw new Error(`${[command, ...args].join(" ")} ended with ${killedBy ?? `status ${status}`}`)
}
