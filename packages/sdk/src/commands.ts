import { COMMAND_CHANNEL } from "@berth/protocol/command-limits"
import {
  type CommandExit,
  CommandInfo,
  CommandList,
  CommandServerMessage,
  type CommandSignal,
  type CommandStart,
} from "@berth/protocol/commands"
import { BerthError } from "@berth/protocol/errors"
import { type CallOptions, call, command } from "./call.ts"
import type { Place } from "./place.ts"
import { errorOf, notBerth } from "./reply-error.ts"
import { openSocket, type Socket } from "./socket.ts"
import { untilExit } from "./until-exit.ts"

/** A program and its arguments; a string is a command for the sandbox's shell. */
export type CommandLine = string | readonly string[]

export interface CommandOptions extends CallOptions {
  /** The working directory. Default: the directory of the only repo, or the workspace. */
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly user?: CommandStart["user"]
  /** The time after which the command is ended with everything that came from it. */
  readonly timeoutMs?: number
}

/** Takes output as it comes. Nothing more is read until it resolves. */
export type OnOutput = (bytes: Uint8Array) => void | Promise<void>

export interface RunOptions extends CommandOptions {
  readonly stdin?: string | Uint8Array
  /** Takes the stream's output, which is then not collected. */
  readonly onStdout?: OnOutput
  readonly onStderr?: OnOutput
}

export interface CommandResult extends CommandExit {
  readonly stdout: string
  readonly stderr: string
}

/** A piece of a command's output: bytes of a stream, or the number of bytes that were not kept. */
export type CommandOutputPiece =
  | { readonly stream: "stdout" | "stderr"; readonly bytes: Uint8Array }
  | { readonly stream: "stdout" | "stderr"; readonly dropped: number }

/** A connection to a command that runs. */
export interface RunningCommand {
  readonly info: Pick<CommandInfo, "id" | "pid">
  /**
   * The whole output, to be read once. A reader that does not read holds up the command, where the platform can do
   * that.
   */
  readonly output: AsyncIterable<CommandOutputPiece>
  /** The end of the command, once all output was read. */
  readonly exit: Promise<CommandExit>
  /** Writes to standard input. Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>
  endInput(): Promise<void>
  signal(signal: CommandSignal): Promise<void>
  /** Ends the connection; a spawned command ends with it. May be called twice. */
  close(): void
}

export interface Commands {
  /** Runs a command to its end. A status other than 0 is a result, not an error. */
  run(line: CommandLine, options?: RunOptions): Promise<CommandResult>
  /** Starts a command that lives as long as the connection, to be read and written as it runs. */
  spawn(
    line: CommandLine,
    options?: CommandOptions & { readonly stdin?: boolean },
  ): Promise<RunningCommand>
  /** Starts a command in the background. */
  start(line: CommandLine, options?: CommandOptions): Promise<CommandInfo>
  list(options?: CallOptions): Promise<CommandInfo[]>
  get(id: string, options?: CallOptions): Promise<CommandInfo>
  /** Attaches to a background command: its output from these bytes on, and all that follows. */
  attach(
    id: string,
    options?: CallOptions & { readonly stdout?: number; readonly stderr?: number },
  ): Promise<RunningCommand>
  signal(id: string, signal: CommandSignal, options?: CallOptions): Promise<void>
  /** Ends a command with everything that came from it. */
  kill(id: string, options?: CallOptions): Promise<CommandInfo>
}

/** The bytes that are collected of each stream. Callers that expect more take the output as it comes. */
const MAX_COLLECTED_BYTES = 64 * 1024 * 1024

/** A stubborn process has its grace period before it is killed. */
const KILL_DEADLINE_MS = 60_000

/**
 * A start that is sent with the connection saves a round trip. In a URL each character may take nine, of the 16 KiB
 * that all headers may have; and possible secrets, such as variables, are never in a URL.
 */
const MAX_EARLY_CHARS = 1_024

export const commandsOf = (place: Place): Commands => {
  const { connection, at } = place
  const spawn: Commands["spawn"] = async (line, { stdin, ...options } = {}) => {
    const start = JSON.stringify({ ...startOf(line, options), ...(stdin && { stdin }) })
    const isEarly = start.length <= MAX_EARLY_CHARS && options.env === undefined
    const query = isEarly ? new URLSearchParams({ start }) : undefined
    const socket = await openSocket(connection, at("/commands/run", query), options)
    if (!isEarly) await socket.send(start)
    return await follow(connection.url, socket)
  }
  return {
    spawn,
    run: async (line, { stdin, onStdout, onStderr, ...options } = {}) => {
      const running = await spawn(line, { ...options, stdin: stdin !== undefined })
      try {
        const written = stdin === undefined ? undefined : feed(running, stdin)
        const streams = { stdout: collector(onStdout), stderr: collector(onStderr) }
        for await (const piece of running.output)
          if ("bytes" in piece) await streams[piece.stream].take(piece.bytes)
        await written
        const { stdout, stderr } = streams
        return { ...(await running.exit), stdout: stdout.text(), stderr: stderr.text() }
      } finally {
        running.close()
      }
    },
    start: (line, options = {}) => {
      const ask = { method: "POST", path: at("/commands"), json: startOf(line, options) } as const
      return call(connection, ask, CommandInfo, options)
    },
    list: async (options) =>
      (await call(connection, { path: at("/commands") }, CommandList, options)).commands,
    get: (id, options) => call(connection, { path: at(pathOf(id)) }, CommandInfo, options),
    attach: async (id, { stdout = 0, stderr = 0, ...options } = {}) => {
      const query = new URLSearchParams({ stdout: String(stdout), stderr: String(stderr) })
      const socket = await openSocket(connection, at(`${pathOf(id)}/attach`, query), options)
      return await follow(connection.url, socket)
    },
    signal: (id, signal, options) => {
      const ask = { method: "POST", path: at(`${pathOf(id)}/signal`), json: { signal } } as const
      return command(connection, ask, options)
    },
    kill: (id, options) => {
      const ask = { method: "DELETE", path: at(pathOf(id)) } as const
      return call(connection, ask, CommandInfo, { deadlineMs: KILL_DEADLINE_MS, ...options })
    },
  }
}

const pathOf = (id: string): string => `/commands/${encodeURIComponent(id)}`

const startOf = (
  line: CommandLine,
  { cwd, env, user, timeoutMs }: CommandOptions,
): CommandStart => ({
  command: typeof line === "string" ? ["/bin/sh", "-c", line] : [...line],
  ...(cwd !== undefined && { cwd }),
  ...(env !== undefined && { env }),
  ...(user !== undefined && { user }),
  ...(timeoutMs !== undefined && { timeoutMs }),
})

/** Reads until the command has started; rejects when it could not be started. */
const follow = async (url: string, socket: Socket): Promise<RunningCommand> => {
  const { exit, read: readAny } = untilExit<CommandServerMessage, CommandExit>(
    { url, socket },
    CommandServerMessage,
    "the command",
  )
  const read = async () => {
    const message = await readAny()
    if (message instanceof Uint8Array || message.type !== "error") return message
    const error = errorOf(message.error)
    exit.reject(error)
    socket.close()
    throw error
  }
  const first = await read()
  if (first instanceof Uint8Array || (first.type !== "started" && first.type !== "attached")) {
    socket.close()
    throw notBerth(url, 0)
  }
  const { id, pid } = first.type === "started" ? first : first.command
  const output = async function* (): AsyncGenerator<CommandOutputPiece> {
    for (;;) {
      const message = await read()
      if (message instanceof Uint8Array) {
        yield { stream: streamOf(url, message), bytes: message.subarray(1) }
      } else if (message.type === "dropped") {
        yield { stream: message.stream, dropped: message.bytes }
      } else if (message.type === "exit") {
        const { type: _, ...how } = message
        exit.resolve(how)
        socket.close()
        return
      }
    }
  }
  return {
    info: { id, pid },
    output: output(),
    exit: exit.promise,
    write: async (bytes) => {
      for (let from = 0; from < bytes.length; from += MAX_INPUT_BYTES) {
        const piece = bytes.subarray(from, from + MAX_INPUT_BYTES)
        const frame = new Uint8Array(piece.length + 1)
        frame[0] = COMMAND_CHANNEL.stdin
        frame.set(piece, 1)
        await socket.send(frame)
      }
    },
    endInput: () => socket.send(JSON.stringify({ type: "stdin.end" })),
    signal: (signal) => socket.send(JSON.stringify({ type: "signal", signal })),
    close: () => socket.close(),
  }
}

const streamOf = (url: string, frame: Uint8Array): "stdout" | "stderr" => {
  if (frame[0] === COMMAND_CHANNEL.stdout) return "stdout"
  if (frame[0] === COMMAND_CHANNEL.stderr) return "stderr"
  throw notBerth(url, 0)
}

/** The bytes of one frame: large enough to be fast, and far below a sandbox's bound. */
const MAX_INPUT_BYTES = 64 * 1024

const feed = async (running: RunningCommand, stdin: string | Uint8Array): Promise<void> => {
  await running.write(typeof stdin === "string" ? new TextEncoder().encode(stdin) : stdin)
  await running.endInput()
}

const collector = (onOutput: OnOutput | undefined) => {
  const decoder = new TextDecoder()
  let text = ""
  let total = 0
  const collect = (bytes: Uint8Array) => {
    total += bytes.length
    if (total > MAX_COLLECTED_BYTES)
      throw new BerthError("input.too_large", "the command wrote more than is collected", {
        details: { limitBytes: MAX_COLLECTED_BYTES },
      })
    text += decoder.decode(bytes, { stream: true })
  }
  return { take: onOutput ?? collect, text: () => text + decoder.decode() }
}
