import { spawn } from "node:child_process"
import { once } from "node:events"
import { BerthError } from "@berth/protocol/errors"
import type { DoctorHost } from "../check.ts"

/** Probes start small programs; five seconds covers a host under heavy load. */
export const COMMAND_DEADLINE_MS = 5_000

/** More than any probe prints; what comes after it is dropped. */
const MAX_OUTPUT_BYTES = 64 * 1024

export interface Outcome {
  /** The exit status, or null when a signal ended it. */
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly cwd?: string
  readonly deadlineMs?: number
}

/**
 * Runs a program to its end. It leads a process group of its own, so that a deadline or a cancel kills
 * its children as well.
 */
export const run = async (
  host: Pick<DoctorHost, "path">,
  [file, ...args]: readonly [string, ...string[]],
  signal: AbortSignal,
  { cwd = "/", deadlineMs = COMMAND_DEADLINE_MS }: RunOptions = {},
): Promise<Outcome> => {
  signal.throwIfAborted()
  const child = spawn(file, args, {
    cwd,
    detached: true,
    env: { PATH: host.path, LC_ALL: "C" },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const stdout = collect(child.stdout)
  const stderr = collect(child.stderr)
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
      throw new BerthError("deadline.exceeded", `${file} did not end within ${deadlineMs} ms`)
    }
    return { status, stdout: stdout(), stderr: stderr() }
  } finally {
    clearTimeout(deadline)
    signal.removeEventListener("abort", kill)
  }
}

const collect = (stream: NodeJS.ReadableStream): (() => string) => {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on("data", (chunk: Buffer) => {
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
    // It ended by itself in the meantime.
  }
}
