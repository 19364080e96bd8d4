import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { setPriority } from "node:os"
import { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { MAX_GIT_CPU_S } from "./bounds.ts"

/** The most that is kept of git's errors, from the end: they are short. */
const MAX_WORDS_BYTES = 8 * 1024

/**
 * The most that is kept of git's output. Answers are a few lines; the largest has one for each commit that a sandbox
 * has.
 */
const MAX_ANSWER_BYTES = 256 * 1024

export interface GitCall {
  readonly args: readonly string[]
  readonly cwd: string
  /** The whole environment of git. */
  readonly env: Readonly<Record<string, string>>
  /** The user that git runs as; undefined for the server's own. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  readonly input?: string
  /** Git's niceness; 0 if absent. */
  readonly niceness?: number
  /** Limits git's address space, and its processor time to MAX_GIT_CPU_S. Default: the limits of the server. */
  readonly maxMemoryBytes?: number
  /** Limits each file that git writes. Default: the limit of the server. */
  readonly maxFileBytes?: number
  readonly deadlineMs: number
  readonly signal: AbortSignal
}

export interface GitEnd {
  readonly status: number | null
  readonly stdout: string
  /** The end of git's standard error. */
  readonly said: string
}

/** Runs git to its end, whatever its status. */
export const git = async (call: GitCall): Promise<GitEnd> => {
  const running = start(call)
  const stdout = keepEnd(running.child.stdout, MAX_ANSWER_BYTES)
  const { status, said } = await running.ended
  return { status, stdout: stdout(), said }
}

/** A stream of git's output. It fails unless git ends well, so nobody takes a part for the whole. */
export const gitStream = (call: GitCall, failed: (end: GitEnd) => BerthError): Readable =>
  Readable.from(chunks(call, failed), { objectMode: false })

async function* chunks(call: GitCall, failed: (end: GitEnd) => BerthError) {
  const running = start(call)
  // The promise is awaited below, or not at all when the reader leaves.
  running.ended.catch(() => {})
  try {
    if (running.child.stdout) yield* running.child.stdout
    const { status, said } = await running.ended
    if (status !== 0) throw failed({ status, stdout: "", said })
  } catch (thrown) {
    // The reason why git was cut short says more than the closed pipe.
    throw running.cutBy() ?? thrown
  } finally {
    running.kill()
  }
}

const start = (call: GitCall) => {
  const { args, cwd, env, user, input, niceness, deadlineMs, signal } = call
  signal.throwIfAborted()
  // Git leads a process group of its own, so that a deadline or a cancel ends its children as well.
  const [program, ...words] = commandOf(call)
  const child = spawn(program, words, { cwd, env, detached: true, ...user })
  if (niceness !== undefined && child.pid !== undefined) lower(child.pid, niceness)
  child.stdin.on("error", () => {})
  child.stdin.end(input)
  const said = keepEnd(child.stderr, MAX_WORDS_BYTES)
  let isOver = false
  // Processes that git left running may hold its pipes, also from outside of its group: nobody waits for them.
  const kill = () => {
    if (isOver) return
    killGroup(child)
    child.stdout.destroy()
    child.stderr.destroy()
  }
  let isOverdue = false
  const deadline = setTimeout(() => {
    isOverdue = true
    kill()
  }, deadlineMs)
  signal.addEventListener("abort", kill, { once: true })
  const cutBy = (): unknown => {
    if (signal.aborted) return signal.reason
    return isOverdue ? overdue(args, deadlineMs) : undefined
  }
  const ended = once(child, "close")
    .then(([status]: (number | null)[]) => {
      const reason = cutBy()
      if (reason !== undefined) throw reason
      return { status: status ?? null, said: said().trim() }
    })
    .finally(() => {
      isOver = true
      clearTimeout(deadline)
      signal.removeEventListener("abort", kill)
    })
  return { child, ended, kill, cutBy }
}

/**
 * The command that runs git with limits. A shell sets them and becomes git: Node has no way to set any for a child. A
 * limit that is lower already stays.
 */
const commandOf = ({
  args,
  maxMemoryBytes,
  maxFileBytes,
}: GitCall): readonly [string, ...string[]] => {
  if (maxMemoryBytes === undefined) return ["git", ...args]
  const limits = [`-v ${Math.floor(maxMemoryBytes / 1024)}`, `-t ${MAX_GIT_CPU_S}`, "-c 0"]
  // `ulimit -f` counts in blocks of 512 bytes, in every shell.
  if (maxFileBytes !== undefined) limits.push(`-f ${Math.floor(maxFileBytes / 512)}`)
  const script = `${limits.map((limit) => `ulimit ${limit} 2>/dev/null; `).join("")}exec git "$@"`
  return ["sh", "-c", script, "git", ...args]
}

const lower = (pid: number, niceness: number): void => {
  try {
    setPriority(pid, niceness)
  } catch {
    // The process has ended already.
  }
}

const keepEnd = (stream: Readable | null, maxBytes: number): (() => string) => {
  let kept = Buffer.alloc(0)
  stream?.on("data", (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk]).subarray(-maxBytes)
  })
  return () => kept.toString("utf8")
}

/**
 * Kills git's process group. A group outlives its leader, and as long as it has a member no process gets the leader's
 * pid. So once git has ended, a process with that pid is someone else's, and so may be the group.
 */
const killGroup = ({ pid, exitCode, signalCode }: ChildProcess): void => {
  if (pid === undefined) return
  const hasEnded = exitCode !== null || signalCode !== null
  if (hasEnded && isTaken(pid)) return
  try {
    process.kill(-pid, "SIGKILL")
  } catch {
    // The group has no process left.
  }
}

const isTaken = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code !== "ESRCH"
  }
}

const overdue = ([command]: readonly string[], deadlineMs: number): BerthError =>
  new BerthError("deadline.exceeded", `git ${command} did not end within ${deadlineMs} ms`, {
    details: { deadlineMs },
  })
