import { setPriority } from "node:os"
import { Readable } from "node:stream"
import { type Child, keepEnd, startChild } from "@berth/host/child"
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
  const stdout = keepEnd(running.stdout, MAX_ANSWER_BYTES)
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
    yield* running.stdout
    const { status, said } = await running.ended
    if (status !== 0) throw failed({ status, stdout: "", said })
  } catch (thrown) {
    // The reason why git was cut short says more than the closed pipe.
    throw running.cutBy() ?? thrown
  } finally {
    running.kill()
  }
}

const start = (call: GitCall): Child & { readonly ended: Promise<GitEnd> } => {
  const { args, cwd, env, user, input, niceness, deadlineMs, signal } = call
  const overdue = () => overdueError(args, deadlineMs)
  const child = startChild(commandOf(call), { cwd, env, user, deadlineMs, signal, overdue })
  if (niceness !== undefined && child.pid !== undefined) lower(child.pid, niceness)
  child.stdin.end(input)
  const said = keepEnd(child.stderr, MAX_WORDS_BYTES)
  const ended = child.closed.then(({ status }) => ({ status, stdout: "", said: said().trim() }))
  return { ...child, ended }
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

const overdueError = ([command]: readonly string[], deadlineMs: number): BerthError =>
  new BerthError("deadline.exceeded", `git ${command} did not end within ${deadlineMs} ms`, {
    details: { deadlineMs },
  })
