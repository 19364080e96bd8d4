import type { ChildProcess, StdioOptions } from "node:child_process"
import { closeSync } from "node:fs"
import { Socket } from "node:net"
import type { Readable, Writable } from "node:stream"
import { Output } from "./output/output.ts"
import type { Pipe, Pipes } from "./output/pipes.ts"
import type { User } from "./user.ts"

/** The streams of a process that is about to be started. Where no pipe can be made, node's sockets do. */
export interface Wiring<Streams> {
  readonly stdio: StdioOptions
  /** Our ends, once it runs. To be called in the turn that started it. */
  connect(child: ChildProcess): Streams
  /** Its ends, of which it has copies then; with ours open, no pipe would ever end. */
  closeTheirs(): void
  /** For when it could not be started. */
  closeOurs(): void
}

export interface OutputStreams {
  readonly output: Output
  /** Both exist exactly when it is for a conversation. */
  readonly stdin: Writable | undefined
  readonly stdout: Readable | undefined
}

/** All that it writes is one output; in a conversation only what it writes to standard error is. */
export const wireOutput = async (
  isConversation: boolean,
  pipes: Pipes | undefined,
  user: User | undefined,
): Promise<Wiring<OutputStreams>> => {
  const pipe = await pipes?.take(user)
  const sink = pipe?.writeFd ?? "pipe"
  return {
    stdio: isConversation ? ["pipe", "pipe", sink] : ["ignore", sink, sink],
    connect: ({ stdin, stdout, stderr }) => {
      const sockets = isConversation ? [stderr] : [stdout, stderr]
      const output = new Output(pipe ? [reader(pipe)] : sockets.filter((each) => each !== null))
      return isConversation
        ? { output, stdin: stdin as Writable, stdout: stdout as Readable }
        : { output, stdin: undefined, stdout: undefined }
    },
    closeTheirs: () => close(pipe?.writeFd),
    closeOurs: () => close(pipe?.readFd),
  }
}

export interface ApartStreams {
  /** Undefined where it has nothing to read. */
  readonly stdin: Input | undefined
  readonly stdout: Readable
  readonly stderr: Readable
}

export interface Input {
  readonly stream: Writable
  /** The stream's, as long as it is open; undefined where it is a socket. */
  readonly pipeFd: number | undefined
}

/**
 * Each stream is for someone: nobody reads until they do. What `stdout` and `stderr` emit as data is good until
 * the listener returns.
 */
export const wireApart = async (
  hasStdin: boolean,
  pipes: Pipes | undefined,
  user: User | undefined,
): Promise<Wiring<ApartStreams>> => {
  const input = hasStdin ? await pipes?.take(user) : undefined
  const out = await pipes?.take(user)
  const error = await pipes?.take(user)
  return {
    stdio: [
      hasStdin ? (input?.readFd ?? "pipe") : "ignore",
      out?.writeFd ?? "pipe",
      error?.writeFd ?? "pipe",
    ],
    connect: ({ stdin, stdout, stderr }) => ({
      stdin: inputOf(input, stdin),
      stdout: out ? frugalReader(out) : (stdout as Readable),
      stderr: error ? frugalReader(error) : (stderr as Readable),
    }),
    closeTheirs: () => close(input?.readFd, out?.writeFd, error?.writeFd),
    closeOurs: () => close(input?.writeFd, out?.readFd, error?.readFd),
  }
}

const reader = ({ readFd }: Pipe): Socket =>
  new Socket({ fd: readFd, readable: true, writable: false })

/**
 * Reads into the same memory every time. Otherwise each read takes 64 KiB of its own, and what waits for the
 * garbage collector is more than all else that a supervisor needs.
 */
const frugalReader = ({ readFd }: Pipe): Socket => {
  const socket: Socket = new Socket({
    fd: readFd,
    readable: true,
    writable: false,
    onread: {
      buffer: READ_BUFFER,
      callback: (bytes, buffer) => {
        socket.emit("data", (buffer as Buffer).subarray(0, bytes))
        return !socket.isPaused()
      },
    },
  })
  return socket
}

/** One for all: what a read brings is handed on before the next one. */
const READ_BUFFER = Buffer.alloc(64 * 1024)

const inputOf = (pipe: Pipe | undefined, stdin: Writable | null): Input | undefined => {
  if (pipe === undefined) return stdin ? { stream: stdin, pipeFd: undefined } : undefined
  const stream = new Socket({ fd: pipe.writeFd, readable: false, writable: true })
  return { stream, pipeFd: pipe.writeFd }
}

const close = (...fds: readonly (number | undefined)[]): void => {
  for (const fd of fds) if (fd !== undefined) closeSync(fd)
}
