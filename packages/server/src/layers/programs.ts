import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { PassThrough, type Readable, type Writable } from "node:stream"
import { PLAIN_ENV } from "../host/run.ts"
import { ioError, programError } from "./io-error.ts"

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
  /** Ends it if it still runs: whoever does not read all of its output must. */
  stop(): void
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
  const stop = () => killGroup(child)
  const ended = outcome(child, command[0], on, signal, stop)
  // Whoever reads the output first learns of a failure from there; it is not unhandled until then.
  ended.catch(() => {})
  // When a program ends, Node throws away what nobody has begun to read of its output.
  const stdout = child.stdout.pipe(new PassThrough())
  return { stdin: child.stdin, stdout, ended, stop }
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
  stop: () => void,
): Promise<void> => {
  const words: Buffer[] = []
  let bytes = 0
  child.stderr?.on("data", (chunk: Buffer) => {
    if (bytes < MAX_WORDS_BYTES) words.push(chunk)
    bytes += chunk.length
  })
  signal?.addEventListener("abort", stop, { once: true })
  try {
    const [status, endedBy] = await exitOf(child, name)
    signal?.throwIfAborted()
    if (status === 0) return
    // Its last words may come after its end.
    if (child.stderr?.readableEnded === false) await once(child.stderr, "end")
    const said = Buffer.concat(words).toString("utf8")
    throw programError(name, on, said || `ended by ${endedBy ?? status}`)
  } finally {
    signal?.removeEventListener("abort", stop)
  }
}

const exitOf = async (
  child: ChildProcess,
  name: string,
): Promise<[number | null, string | null]> => {
  try {
    return (await once(child, "exit")) as [number | null, string | null]
  } catch (thrown) {
    // It could not be started at all.
    throw ioError(thrown, name)
  }
}

const killGroup = ({ pid, exitCode, signalCode }: ChildProcess): void => {
  // Once it has ended, its id may be another's.
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // It ended by itself in the meantime.
  }
}
