import type { ChildProcess, StdioOptions } from "node:child_process"
import { closeSync } from "node:fs"
import { Socket } from "node:net"
import type { Readable, Writable } from "node:stream"
import { Output } from "./output/output.ts"
import type { Pipe, Pipes } from "./output/pipes.ts"
import type { User } from "./user.ts"

/** The streams of a process that is about to start. If no pipe can be made, node's sockets are used. */
export interface Wiring<Streams> {
  readonly stdio: StdioOptions
  /** Returns our ends. To be called in the turn of the event loop that started the process. */
  connect(child: ChildProcess): Streams
  /** Closes the process's ends, of which it has copies once it runs. With ours open, no pipe would ever end. */
  closeTheirs(): void
  /** Closes our ends if the process could not be started. */
  closeOurs(): void
}

export interface OutputStreams {
  readonly output: Output
  /** `stdin` and `stdout` are set exactly if the process is for a conversation. */
  readonly stdin: Writable | undefined
  readonly stdout: Readable | undefined
}

/** Wires standard output and error to one output. In a conversation only standard error is output. */
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
  /** Undefined if the process has no standard input. */
  readonly stdin: Input | undefined
  readonly stdout: Readable
  readonly stderr: Readable
}

export interface Input {
  readonly stream: Writable
  /** The stream's descriptor, while it is open; undefined for a socket. */
  readonly pipeFd: number | undefined
}

/**
 * Wires each stream on its own, unread until a caller reads it. Data that `stdout` and `stderr` emit is valid only
 * until the listener returns.
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
 * Reads into the same buffer every time. Otherwise each read allocates 64 KiB, and the garbage that waits for
 * collection is more than everything else in a supervisor.
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

/** Shared by all readers: the data of a read is handed on before the next read. */
const READ_BUFFER = Buffer.alloc(64 * 1024)

const inputOf = (pipe: Pipe | undefined, stdin: Writable | null): Input | undefined => {
  if (pipe === undefined) return stdin ? { stream: stdin, pipeFd: undefined } : undefined
  const stream = new Socket({ fd: pipe.writeFd, readable: false, writable: true })
  return { stream, pipeFd: pipe.writeFd }
}

const close = (...fds: readonly (number | undefined)[]): void => {
  for (const fd of fds) if (fd !== undefined) closeSync(fd)
}
