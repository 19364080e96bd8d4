import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { PassThrough, type Readable, type Writable } from "node:stream"
import { PLAIN_ENV } from "../host/run.ts"
import { ioError, programError } from "./io-error.ts"

/** The first words tell the cause; a full disk makes `cp` repeat them for every file. */
const MAX_WORDS_BYTES = 64 * 1024

export interface ProgramOptions {
  readonly signal: AbortSignal | undefined
  /** The path that the program works on, for the error. */
  readonly on: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

export interface Program {
  readonly stdin: Writable
  readonly stdout: Readable
  /** Rejects with the program's words if it fails, and when the signal fires. */
  readonly ended: Promise<void>
  /** Ends the program if it still runs. A caller that does not read all of its output must call this. */
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
  // Marks the rejection as handled: a reader of the output learns of a failure from there first.
  ended.catch(() => {})
  // When a program ends, Node discards the output that nobody has begun to read, so it is piped on at once.
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
    // The program's last words may come after its end.
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
    // The program could not be started at all.
    throw ioError(thrown, name)
  }
}

const killGroup = ({ pid, exitCode, signalCode }: ChildProcess): void => {
  // After the program's end, its pid may be another's.
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // The program ended by itself in the meantime.
  }
}
