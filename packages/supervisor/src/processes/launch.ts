import type { ChildProcess } from "node:child_process"
import { statSync } from "node:fs"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import { MARK_VARIABLE, type Origin } from "@berth/protocol/process-mark"
import type { Pipes } from "./output/pipes.ts"
import { spawn } from "./spawn.ts"
import { newMark } from "./tree/mark.ts"
import { readProcess } from "./tree/proc.ts"
import { ProcessTree } from "./tree/tree.ts"
import type { User } from "./user.ts"
import {
  type ApartStreams,
  type OutputStreams,
  type Wiring,
  wireApart,
  wireOutput,
} from "./wiring.ts"

/** The program to run. The supervisor's own environment is not passed on. */
export interface Launch {
  readonly command: readonly [string, ...string[]]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** The user to run as. Default: the supervisor's own. */
  readonly user?: User | undefined
  /** True for a program of ours, which starts as the supervisor and takes the user's ids itself: see `becomeUser`. */
  readonly becomesUser?: boolean
  /** Set if processes that it leaves running are somebody's work. */
  readonly origin?: Origin
  /** The prompt that the process is for, if it is for one alone. */
  readonly prompt?: PromptId
}

export interface LaunchOptions {
  readonly pipes?: Pipes | undefined
  /** True: standard input and output are for the caller, and only standard error is output. */
  readonly conversation: boolean
  /** Checked right before the start. */
  readonly signal: AbortSignal
}

export type Exit =
  | { readonly status: number; readonly signal: null }
  | { readonly status: null; readonly signal: NodeJS.Signals }

/** A started process. It leads a session and group of its own, and has a mark in its environment. */
export interface Started {
  readonly pid: number
  readonly tree: ProcessTree
  /** How the process ended; undefined while it runs. */
  readonly exit: Exit | undefined
  readonly exited: Promise<Exit>
}

export type Launched = Started & OutputStreams
export type LaunchedApart = Started & ApartStreams

/** Starts a process. Rejects with `process.start_failed` if it cannot. */
export const launch = async (
  what: Launch,
  { pipes, conversation, signal }: LaunchOptions,
): Promise<Launched> => startOn(await wireOutput(conversation, pipes, what.user), what, signal)

/** Like `launch`, with standard output and error kept apart, for a caller that reads both. */
export const launchApart = async (
  what: Launch,
  { pipes, stdin, signal }: Omit<LaunchOptions, "conversation"> & { readonly stdin: boolean },
): Promise<LaunchedApart> => startOn(await wireApart(stdin, pipes, what.user), what, signal)

const startOn = async <Streams>(
  wiring: Wiring<Streams>,
  what: Launch,
  signal: AbortSignal,
): Promise<Started & Streams> => {
  try {
    signal.throwIfAborted()
    return await start(what, wiring)
  } catch (thrown) {
    wiring.closeOurs()
    throw thrown
  } finally {
    wiring.closeTheirs()
  }
}

const start = async <Streams>(
  what: Launch,
  { stdio, connect }: Wiring<Streams>,
): Promise<Started & Streams> => {
  const [file, ...args] = what.command
  const mark = newMark(what.origin, what.prompt)
  const child = await spawned(() =>
    spawn(file, args, {
      cwd: what.cwd,
      env: { ...what.env, [MARK_VARIABLE]: mark },
      ...(what.user && !what.becomesUser && { uid: what.user.uid, gid: what.user.gid }),
      stdio,
      detached: true,
    }),
  ).catch((thrown: unknown) => {
    throw startError(what, thrown)
  })
  const pid = child.pid as number
  const exited = new Promise<Exit>((resolve) =>
    child.once("exit", (status, signal) => resolve(exitOf(status, signal))),
  )
  const isRootOurs = () => child.exitCode === null && child.signalCode === null
  // Readable even if the process has ended: Node reaps it in the event loop, which has not turned yet.
  const startTicks = readProcess(pid)?.startTicks ?? 0
  return {
    pid,
    tree: new ProcessTree({ root: { pid, startTicks }, mark, user: what.user, isRootOurs }),
    get exit() {
      return isRootOurs() ? undefined : exitOf(child.exitCode, child.signalCode)
    },
    exited,
    ...connect(child),
  }
}

/** Returns the child once it has a pid. Node reports some failures by throwing, and others by an event. */
const spawned = async (spawnIt: () => ChildProcess): Promise<ChildProcess> => {
  const child = spawnIt()
  if (child.pid !== undefined) {
    child.on("error", () => {})
    return child
  }
  return await new Promise((_, reject) => child.once("error", reject))
}

const exitOf = (status: number | null, signal: NodeJS.Signals | null): Exit =>
  signal === null ? { status: status ?? 0, signal } : { status: null, signal }

/** Says what is missing: Node reports ENOENT for the command also if only the directory is missing. */
const startError = ({ command, cwd, user }: Launch, cause: unknown): BerthError => {
  const code = (cause as NodeJS.ErrnoException).code ?? "unknown"
  const isDirectoryMissing = !isDirectory(cwd)
  const problem = isDirectoryMissing ? `${code}: there is no directory ${cwd}` : code
  return new BerthError("process.start_failed", `${command[0]} could not be started: ${problem}`, {
    details: { command: command[0], cwd, uid: user?.uid, code, isDirectoryMissing },
    cause,
  })
}

const isDirectory = (path: string): boolean => {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}
