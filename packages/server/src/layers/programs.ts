import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { PassThrough, type Readable, type Writable } from "node:stream"
import { PLAIN_ENV } from "../host/run.ts"
import { programError } from "./io-error.ts"

/** The first words tell the cause; a full disk makes `cp` repeat them for every file. */
const MAX_WORDS_BYTES = 64 * 1024

export interface ProgramOptions {
  readonly signal: AbortSignal | undefined
  /** What it works on, for the error. */
  readonly on: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

export interface Program {
  readonly stdin: Writable
  readonly stdout: Readable
  /** Rejects with its words if it fails, and when the signal fires. */
  readonly ended: Promise<void>
}

/**
 * Starts a program that works on trees. It dies with this process, so that nothing writes any more into
 * a tree that the next process removes; a cancel kills it with its children.
 */
export const startProgram = (
  command: readonly [string, ...string[]],
  { signal, on, cwd = "/", env = {} }: ProgramOptions,
): Program => {
  signal?.throwIfAborted()
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", ...command], {
    cwd,
    env: { ...PLAIN_ENV, ...env },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  })
  // A program that ends before it has read its input is judged by its status, not by the broken pipe.
  child.stdin.on("error", () => {})
  const ended = outcome(child, command[0], on, signal)
  // Whoever reads the output first learns of a failure from there; it is not unhandled until then.
  ended.catch(() => {})
  // When a program ends, Node throws away what nobody has begun to read of its output.
  const stdout = child.stdout.pipe(new PassThrough())
  return { stdin: child.stdin, stdout, ended }
}

/** Runs a program whose output does not matter. */
export const runProgram = async (
  command: readonly [string, ...string[]],
  options: ProgramOptions,
): Promise<void> => {
  const program = startProgram(command, options)
  program.stdin.end()
  program.stdout.resume()
  await program.ended
}

const outcome = async (
  child: ChildProcess,
  name: string,
  on: string,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const words: Buffer[] = []
  let bytes = 0
  child.stderr?.on("data", (chunk: Buffer) => {
    if (bytes < MAX_WORDS_BYTES) words.push(chunk)
    bytes += chunk.length
  })
  const kill = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
    } catch {
      // It ended by itself in the meantime.
    }
  }
  signal?.addEventListener("abort", kill, { once: true })
  try {
    const [status, endedBy] = (await once(child, "close")) as [number | null, string | null]
    signal?.throwIfAborted()
    const said = Buffer.concat(words).toString("utf8")
    if (status !== 0) throw programError(name, on, said || `ended by ${endedBy ?? status}`)
  } finally {
    signal?.removeEventListener("abort", kill)
  }
}
