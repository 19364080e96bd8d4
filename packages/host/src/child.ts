import { type ChildProcessByStdio, spawn } from "node:child_process"
import { once } from "node:events"
import type { Readable, Writable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { killGroup } from "./kill-group.ts"

/** The environment of programs: nothing of the server's own, where secrets may be, reaches them. */
export const PLAIN_ENV = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
}

export interface ChildOptions {
  readonly signal: AbortSignal | undefined
  readonly cwd?: string
  /** The whole environment of the program. Default: a plain locale and the standard places of programs. */
  readonly env?: Readonly<Record<string, string>>
  /** The user that the program runs as. Default: the server's own. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
  /** Default: none. */
  readonly deadlineMs?: number
  /** The program ends with this process, whatever ends that. */
  readonly endsWithServer?: boolean
  /** The error after the deadline. Default: one that names the program. */
  readonly overdue?: (deadlineMs: number) => BerthError
}

export interface Exit {
  /** The exit status, or null if a signal ended the program. */
  readonly status: number | null
  /** The signal that ended the program. */
  readonly endedBy: NodeJS.Signals | null
}

export interface Child {
  readonly pid: number | undefined
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Resolves when the program has ended. Its last output may come later. Rejects like `closed`. */
  readonly exited: Promise<Exit>
  /**
   * Resolves when the program and its outputs have ended. Rejects if the program could not be started, and with the
   * reason if a cancel or the deadline killed it.
   */
  readonly closed: Promise<Exit>
  /** Kills the program with its children, and closes its outputs. */
  kill(): void
  /** The reason for which a cancel or the deadline killed the program; undefined: they did not. */
  cutBy(): unknown
}

/**
 * Starts a program on the host. It leads a process group of its own, so that a deadline or a cancel kills its children
 * as well.
 */
export const startChild = (
  command: readonly [string, ...string[]],
  options: ChildOptions,
): Child => {
  const { signal, cwd = "/", env = PLAIN_ENV, user, deadlineMs } = options
  signal?.throwIfAborted()
  const [file, ...args] = options.endsWithServer ? [...END_WITH_PARENT, ...command] : command
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(file as string, args, {
    cwd,
    env,
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    ...user,
  })
  // A program that ends before it has read its input is judged by its status, not by the broken pipe.
  child.stdin.on("error", () => {})

  let isOver = false
  let isOverdue = false
  const kill = (): void => {
    if (isOver) return
    killGroup(child)
    // Processes that the program left outside of its group may hold its outputs: nobody waits for them.
    child.stdout.destroy()
    child.stderr.destroy()
  }
  const cutBy = (): unknown => {
    if (signal?.aborted) return signal.reason
    return isOverdue ? (options.overdue ?? overdueOf(command))(deadlineMs as number) : undefined
  }
  const onDeadline = () => {
    isOverdue = true
    kill()
  }
  const deadline = deadlineMs === undefined ? undefined : setTimeout(onDeadline, deadlineMs)
  signal?.addEventListener("abort", kill, { once: true })

  const end = async (event: "exit" | "close"): Promise<Exit> => {
    const [status, endedBy] = (await once(child, event)) as [number | null, NodeJS.Signals | null]
    const reason = cutBy()
    if (reason !== undefined) throw reason
    return { status, endedBy }
  }
  const exited = end("exit")
  const closed = end("close").finally(() => {
    isOver = true
    clearTimeout(deadline)
    signal?.removeEventListener("abort", kill)
  })
  // A caller awaits one of them, and learns of a failure there.
  exited.catch(() => {})
  closed.catch(() => {})
  const { pid, stdin, stdout, stderr } = child
  return { pid, stdin, stdout, stderr, exited, closed, kill, cutBy }
}

const END_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL", "--"]

const overdueOf =
  (command: readonly [string, ...string[]]) =>
  (deadlineMs: number): BerthError =>
    new BerthError("deadline.exceeded", `${command[0]} did not end within ${deadlineMs} ms`, {
      details: { command: [...command], deadlineMs },
    })

/** Keeps the first bytes of a stream, and drops the rest. */
export const keepStart = (stream: Readable, maxBytes: number): (() => string) => {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on("data", (chunk: Buffer) => {
    if (bytes < maxBytes) chunks.push(chunk)
    bytes += chunk.length
  })
  return () => Buffer.concat(chunks).subarray(0, maxBytes).toString("utf8")
}

/** Keeps the last bytes of a stream. */
export const keepEnd = (stream: Readable, maxBytes: number): (() => string) => {
  let kept = Buffer.alloc(0)
  stream.on("data", (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk]).subarray(-maxBytes)
  })
  return () => kept.toString("utf8")
}
