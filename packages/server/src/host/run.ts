import { spawn } from "node:child_process"
import { once } from "node:events"
import { BerthError } from "@berth/protocol/errors"

/** The deadline of programs that Berth runs on the host. They are small; this covers a host under heavy load. */
export const COMMAND_DEADLINE_MS = 5_000

/** More than any of these programs prints; the rest is dropped. */
const MAX_OUTPUT_BYTES = 256 * 1024

export interface Outcome {
  /** The exit status, or null if a signal ended the program. */
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly signal: AbortSignal
  readonly input?: string
  readonly cwd?: string
  readonly deadlineMs?: number
  /** The whole environment of the program. Default: a plain locale and the standard places of programs. */
  readonly env?: Readonly<Record<string, string>>
}

/** The environment of programs: nothing of the server's own, where secrets may be, reaches them. */
export const PLAIN_ENV = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
}

/**
 * Runs a program to its end. The program leads a process group of its own, so that a deadline or a cancel kills its
 * children as well.
 */
export const run = async (
  [file, ...args]: readonly [string, ...string[]],
  { signal, input, cwd = "/", deadlineMs = COMMAND_DEADLINE_MS, env = PLAIN_ENV }: RunOptions,
): Promise<Outcome> => {
  signal.throwIfAborted()
  const child = spawn(file, args, {
    cwd,
    env,
    detached: true,
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  })
  const stdout = collect(child.stdout)
  const stderr = collect(child.stderr)
  // A program that ends before it has read its input is judged by its status, not by the broken pipe.
  child.stdin?.on("error", () => {})
  child.stdin?.end(input)
  let overdue = false
  const kill = () => killGroup(child.pid)
  const deadline = setTimeout(() => {
    overdue = true
    kill()
  }, deadlineMs)
  signal.addEventListener("abort", kill, { once: true })
  try {
    // "close" comes after both pipes ended; a spawn failure is an "error" and rejects.
    const [status] = (await once(child, "close")) as [number | null]
    signal.throwIfAborted()
    if (overdue) {
      throw new BerthError("deadline.exceeded", `${file} did not end within ${deadlineMs} ms`, {
        details: { command: [file, ...args], deadlineMs },
      })
    }
    return { status, stdout: stdout(), stderr: stderr() }
  } finally {
    clearTimeout(deadline)
    signal.removeEventListener("abort", kill)
  }
}

const collect = (stream: NodeJS.ReadableStream | null): (() => string) => {
  const chunks: Buffer[] = []
  let bytes = 0
  stream?.on("data", (chunk: Buffer) => {
    if (bytes < MAX_OUTPUT_BYTES) chunks.push(chunk)
    bytes += chunk.length
  })
  return () => Buffer.concat(chunks).subarray(0, MAX_OUTPUT_BYTES).toString("utf8")
}

const killGroup = (pid: number | undefined) => {
  if (pid === undefined) return
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // The program ended by itself in the meantime.
  }
}
