/**
 * Commands in a sandbox.
 *
 * - WebSocket `/commands/run`: the client sends a `CommandStart`, then `CommandClientMessage`s and standard input.
 *   A short start may be sent with the connection instead, as JSON in `?start=`: then the command starts without
 *   waiting for a frame, and an invalid start is answered as a refusal. The client gets `started`, the output, and
 *   `exit`; or `error`: then nothing was started, or the command was ended. Either closes the connection, with 1000
 *   or with `COMMAND_CLOSE.failed`. The command ends with the connection, whichever side closes it.
 * - `POST /commands` with a `CommandStart` starts a command in the background: 201 and its `CommandInfo`.
 * - `GET /commands` → `CommandList`, `GET /commands/{id}` → `CommandInfo`: the commands that run, and for a while
 *   background commands that have ended.
 * - WebSocket `/commands/{id}/attach?stdout=N&stderr=M`: the output of a background command from these bytes on
 *   (default: 0), then new output, then `exit`. Any number of clients may be attached; a client that reads too
 *   slowly gets `dropped` with the number of bytes that were not kept. Input and signals work as with `run`.
 * - `POST /commands/{id}/signal` with a `CommandSignalRequest`: 204. The signal goes to the command's whole group.
 * - `DELETE /commands/{id}`: ends the command with everything that came from it, and forgets it: 200 and its
 *   `CommandInfo`.
 *
 * Text frames are JSON. Binary frames begin with a byte of `COMMAND_CHANNEL`, and then hold bytes of that stream as
 * they are. A client that does not read holds up its own command, and nobody else's.
 */
import { z } from "zod"
import { COMMAND_SIGNALS, COMMAND_USERS, MAX_COMMAND_TIMEOUT_MS } from "./command-limits.ts"
import { idWith } from "./ids.ts"
import { ExitStatus, SignalName } from "./process-end.ts"
import { hasNoNul, namesProgram, namesVariable } from "./rules.ts"

export const CommandId = idWith("cmd")
export type CommandId = z.infer<typeof CommandId>

/** Text without NUL: the kernel ends a text at its first NUL. */
const SystemText = z.string().refine(hasNoNul, "must hold no NUL character")

const VariableName = SystemText.refine(namesVariable, "must be the name of a variable")

export const CommandUser = z.enum(COMMAND_USERS)
export type CommandUser = z.infer<typeof CommandUser>

export const CommandSignal = z.enum(COMMAND_SIGNALS)
export type CommandSignal = z.infer<typeof CommandSignal>

export const CommandStart = z.strictObject({
  /** The program, by its name or path, and its arguments. No shell is involved. */
  command: z.array(SystemText).min(1).refine(namesProgram, "must name a program"),
  /**
   * The working directory. Default: the directory of the only repo, or the workspace. A relative one is below the
   * workspace.
   */
  cwd: SystemText.min(1).optional(),
  /** Variables beside the sandbox's own, which they override. */
  env: z.record(VariableName, SystemText).optional(),
  /** Default: agent. */
  user: CommandUser.optional(),
  /** The time after which the command is ended with everything that came from it. Default: no limit. */
  timeoutMs: z.int().min(1).max(MAX_COMMAND_TIMEOUT_MS).optional(),
  /** Whether standard input comes from the client. Default: it is empty. */
  stdin: z.boolean().optional(),
})
export type CommandStart = z.infer<typeof CommandStart>

export const CommandSignalRequest = z.strictObject({ signal: CommandSignal })
export type CommandSignalRequest = z.infer<typeof CommandSignalRequest>

/** A client's message after the start, beside the bytes of standard input. */
export const CommandClientMessage = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("stdin.end") }),
  z.strictObject({ type: z.literal("signal"), signal: CommandSignal }),
])
export type CommandClientMessage = z.infer<typeof CommandClientMessage>

/** The end of a command: with a status, or by a signal. */
export const CommandExit = z.object({
  status: ExitStatus.nullable(),
  signal: SignalName.nullable(),
  /** The time limit ended the command. */
  timedOut: z.boolean(),
  durationMs: z.number().nonnegative(),
  /** Processes that outlived even SIGKILL, as those that wait for a dead disk do. */
  left: z.array(z.int()),
})
export type CommandExit = z.infer<typeof CommandExit>

export const CommandStream = z.enum(["stdout", "stderr"])
export type CommandStream = z.infer<typeof CommandStream>

/** The kept bytes of a stream, by their position in it. */
export const CommandOutput = z.object({
  /** The first byte that is still kept. */
  from: z.int(),
  /** The position of the next byte. */
  to: z.int(),
})
export type CommandOutput = z.infer<typeof CommandOutput>

export const CommandInfo = z.object({
  id: CommandId,
  pid: z.int(),
  command: z.array(z.string()),
  cwd: z.string(),
  user: CommandUser,
  background: z.boolean(),
  startedAt: z.iso.datetime(),
  /** Null while the command runs. */
  exit: CommandExit.nullable(),
  /** The kept output of a background command; null for others. */
  output: z.record(CommandStream, CommandOutput).nullable(),
})
export type CommandInfo = z.infer<typeof CommandInfo>

export const CommandList = z.object({ commands: z.array(CommandInfo) })
export type CommandList = z.infer<typeof CommandList>

/** A message to a client, beside the bytes of output. */
export const CommandServerMessage = z.discriminatedUnion("type", [
  z.object({ type: z.literal("started"), id: CommandId, pid: z.int().positive() }),
  /** The first message on a connection that attaches. */
  z.object({ type: z.literal("attached"), command: CommandInfo }),
  /** The number of bytes of a stream that were not kept; the output after them follows. */
  z.object({ type: z.literal("dropped"), stream: CommandStream, bytes: z.int().nonnegative() }),
  /** The last message, after all output. */
  z.object({ type: z.literal("exit"), ...CommandExit.shape }),
  /** The last message of a failure. */
  z.object({
    type: z.literal("error"),
    error: z.object({
      code: z.string(),
      message: z.string(),
      hint: z.string(),
      retry: z.enum(["now", "later", "never"]),
      details: z.record(z.string(), z.unknown()),
    }),
  }),
])
export type CommandServerMessage = z.infer<typeof CommandServerMessage>
