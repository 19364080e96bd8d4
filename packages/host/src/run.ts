import { type ChildOptions, type Exit, keepStart, startChild } from "./child.ts"

/** The deadline of programs that Berth runs on the host. They are small; this covers a host under heavy load. */
const COMMAND_DEADLINE_MS = 5_000

/** More than any of these programs prints; the rest is dropped. */
const MAX_OUTPUT_BYTES = 256 * 1024

export interface Outcome extends Pick<Exit, "status"> {
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions extends Pick<ChildOptions, "cwd" | "env" | "deadlineMs"> {
  readonly signal: AbortSignal
  readonly input?: string
}

/** Runs a program to its end, and keeps its output. */
export const run = async (
  command: readonly [string, ...string[]],
  { input, deadlineMs = COMMAND_DEADLINE_MS, ...options }: RunOptions,
): Promise<Outcome> => {
  const child = startChild(command, { ...options, deadlineMs })
  const stdout = keepStart(child.stdout, MAX_OUTPUT_BYTES)
  const stderr = keepStart(child.stderr, MAX_OUTPUT_BYTES)
  child.stdin.end(input)
  const { status } = await child.closed
  return { status, stdout: stdout(), stderr: stderr() }
}
