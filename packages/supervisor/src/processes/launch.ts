import { type ChildProcess, type StdioOptions, spawn } from "node:child_process"
import { closeSync, statSync } from "node:fs"
import { Socket } from "node:net"
import type { Readable, Writable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { Output } from "./output/output.ts"
import type { Pipe, Pipes } from "./output/pipes.ts"
import { MARK_VARIABLE, newMark } from "./tree/mark.ts"
import { readProcess } from "./tree/proc.ts"
import { ProcessTree } from "./tree/tree.ts"
import type { User } from "./user.ts"

/** What to run. Nothing of the supervisor's own environment is passed on. */
export interface Launch {
  readonly command: readonly [string, ...string[]]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** Default: the supervisor's own. */
  readonly user?: User | undefined
}

export interface LaunchOptions {
  readonly pipes?: Pipes | undefined
  /** Whether standard input and output are for someone to talk over, and only standard error is output. */
  readonly conversation: boolean
  /** Checked last before the start. */
  readonly signal: AbortSignal
}

export type Exit =
  | { readonly status: number; readonly signal: null }
  | { readonly status: null; readonly signal: NodeJS.Signals }

/** A process that was started: in a session and group of its own, and marked. */
export interface Launched {
  readonly pid: number
  readonly tree: ProcessTree
  readonly output: Output
  /** Undefined while it runs. */
  readonly exit: Exit | undefined
  readonly exited: Promise<Exit>
  /** Both exist exactly when it is for a conversation. */
  readonly stdin: Writable | undefined
  readonly stdout: Readable | undefined
}

/** Starts a process; rejects with `process.start_failed` when it cannot. */
export const launch = async (what: Launch, options: LaunchOptions): Promise<Launched> => {
  const pipe = await options.pipes?.take(what.user)
  try {
    options.signal.throwIfAborted()
    return await start(what, options.conversation, pipe)
  } catch (thrown) {
    if (pipe !== undefined) closeSync(pipe.readFd)
    throw thrown
  } finally {
    // The process has its own copy; with ours open, the pipe would never end.
    if (pipe !== undefined) closeSync(pipe.writeFd)
  }
}

const start = async (
  what: Launch,
  conversation: boolean,
  pipe: Pipe | undefined,
): Promise<Launched> => {
  const [file, ...args] = what.command
  const mark = newMark()
  const sink = pipe?.writeFd ?? "pipe"
  const stdio: StdioOptions = conversation ? ["pipe", "pipe", sink] : ["ignore", sink, sink]
  const child = await spawned(() =>
    spawn(file, args, {
      cwd: what.cwd,
      env: { ...what.env, [MARK_VARIABLE]: mark },
      ...(what.user && { uid: what.user.uid, gid: what.user.gid }),
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
  // There even if it has ended already: its status is taken by the event loop, which has not turned yet.
  const startTicks = readProcess(pid)?.startTicks ?? 0
  return {
    pid,
    tree: new ProcessTree({ root: { pid, startTicks }, mark, user: what.user, isRootOurs }),
    output: new Output(outputStreams(child, conversation, pipe)),
    get exit() {
      return isRootOurs() ? undefined : exitOf(child.exitCode, child.signalCode)
    },
    exited,
    ...(conversation
      ? { stdin: child.stdin as Writable, stdout: child.stdout as Readable }
      : { stdin: undefined, stdout: undefined }),
  }
}

const outputStreams = (
  child: ChildProcess,
  conversation: boolean,
  pipe: Pipe | undefined,
): Readable[] => {
  if (pipe !== undefined) return [new Socket({ fd: pipe.readFd, readable: true, writable: false })]
  const streams = conversation ? [child.stderr] : [child.stdout, child.stderr]
  return streams.filter((stream) => stream !== null)
}

/** The child once it has a pid. Node says of some failures by throwing, and of others by an event. */
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

/** Node says ENOENT of the command also when it is the directory that is missing. */
const startError = ({ command, cwd, user }: Launch, cause: unknown): BerthError => {
  const code = (cause as NodeJS.ErrnoException).code ?? "unknown"
  const problem = isDirectory(cwd) ? code : `${code}: there is no directory ${cwd}`
  return new BerthError("process.start_failed", `${command[0]} could not be started: ${problem}`, {
    details: { command: command[0], cwd, uid: user?.uid, code },
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
