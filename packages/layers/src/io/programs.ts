import { PassThrough, type Readable, type Writable } from "node:stream"
import { finished } from "node:stream/promises"
import { type Child, keepStart, PLAIN_ENV, startChild } from "@berth/host/child"
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
  const child = startChild(command, {
    signal,
    cwd,
    env: { ...PLAIN_ENV, ...env },
    endsWithServer: true,
  })
  const ended = outcome(child, command[0], on)
  // Marks the rejection as handled: a reader of the output learns of a failure from there first.
  ended.catch(() => {})
  // When a program ends, Node discards the output that nobody has begun to read, so it is piped on at once.
  const stdout = child.stdout.pipe(new PassThrough())
  // A reader may have left already.
  stdout.on("error", () => {})
  // A program that was killed closes its output without an end.
  child.stdout.once("close", () => {
    const reason = child.cutBy()
    // A cancel may come after a good end, and cuts the output short: a reader must not take the part for the whole.
    if (reason === undefined) stdout.end()
    else stdout.destroy(reason as Error)
  })
  return { stdin: child.stdin, stdout, ended, stop: child.kill }
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

const outcome = async (child: Child, name: string, on: string): Promise<void> => {
  const words = keepStart(child.stderr, MAX_WORDS_BYTES)
  const { status, endedBy } = await child.exited.catch((thrown: unknown) => {
    // Neither a cancel nor a failure: the program could not be started at all.
    throw child.cutBy() ?? ioError(thrown, name)
  })
  if (status === 0) return
  // The program's last words may come after its end. None come any more once it is killed.
  await finished(child.stderr).catch(() => {})
  throw child.cutBy() ?? programError(name, on, words() || `ended by ${endedBy ?? status}`)
}
