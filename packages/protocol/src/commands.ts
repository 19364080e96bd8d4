/**
 * Commands in a sandbox.
 *
 * - WebSocket `/commands/run`: the client says a `CommandStart`, then `CommandClientMessage`s and standard
 *   input. A start that is short may be said with the connection instead, as JSON in `?start=`: then the command
 *   starts without waiting for a frame, and a start that is wrong is answered as a refusal. It hears `started`,
 *   the output, and `exit`; or `error`, and then nothing was started or what was is ended. Either closes the
 *   connection, with 1000 or with `COMMAND_CLOSE.failed`. The command ends with the connection, whoever closes it.
 * - `POST /commands` with a `CommandStart` starts one in the background: 201 and its `CommandInfo`.
 * - `GET /commands` → `CommandList`, `GET /commands/{id}` → `CommandInfo`: those that run, and those in the
 *   background that have ended, for a while.
 * - WebSocket `/commands/{id}/attach?stdout=N&stderr=M`: the output of one in the background from these bytes
 *   on (0 where none is named), then what follows, then `exit`. Any number may be attached; whoever reads too
 *   slowly is told by `dropped` what was not kept. Input and signals as with `run`.
 * - `POST /commands/{id}/signal` with a `CommandSignalRequest`: 204. It goes to the command's whole group.
 * - `DELETE /commands/{id}`: ends it with everything that came from it, and forgets it: 200 and its
 *   `CommandInfo`.
 *
 * Text frames are JSON. Binary frames begin with a byte of `COMMAND_CHANNEL`, and then hold bytes of that
 * stream as they are. Whoever does not read holds up the command that it runs, and nobody else.
 */
import { z } from "zod"
import { COMMAND_SIGNALS, COMMAND_USERS, MAX_COMMAND_TIMEOUT_MS } from "./command-limits.ts"
import { ExitStatus, SignalName } from "./process-end.ts"

export const CommandId = z
  .string()
  .regex(/^cmd-[0-9a-hjkmnp-tv-z]{20}$/, "must be an id of the form cmd-…")
  .brand<"cmd">()
export type CommandId = z.infer<typeof CommandId>

/** The kernel ends a text at its first NUL. */
const SystemText = z.string().refine((text) => !text.includes("\0"), "must hold no NUL character")

const VariableName = SystemText.refine(
  (name) => name !== "" && !name.includes("="),
  "must be the name of a variable",
)

export const CommandUser = z.enum(COMMAND_USERS)
export type CommandUser = z.infer<typeof CommandUser>

export const CommandSignal = z.enum(COMMAND_SIGNALS)
export type CommandSignal = z.infer<typeof CommandSignal>

export const CommandStart = z.strictObject({
  /** The program, by its name or path, and its arguments. No shell is involved. */
  command: z
    .array(SystemText)
    .min(1)
    .refine(([program]) => program !== "", "must name a program"),
  /** Default: the directory of the only repo, or the workspace. A relative one is below the workspace. */
  cwd: SystemText.min(1).optional(),
  /** Beside the sandbox's own, which these win over. */
  env: z.record(VariableName, SystemText).optional(),
  /** Default: agent. */
  user: CommandUser.optional(),
  /** Then it is ended with everything that came from it. Default: no limit. */
  timeoutMs: z.int().min(1).max(MAX_COMMAND_TIMEOUT_MS).optional(),
  /** Whether standard input comes from the client. Default: it is empty. */
  stdin: z.boolean().optional(),
})
export type CommandStart = z.infer<typeof CommandStart>

export const CommandSignalRequest = z.strictObject({ signal: CommandSignal })
export type CommandSignalRequest = z.infer<typeof CommandSignalRequest>

/** What a client says after the start, beside the bytes of standard input. */
export const CommandClientMessage = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("stdin.end") }),
  z.strictObject({ type: z.literal("signal"), signal: CommandSignal }),
])
export type CommandClientMessage = z.infer<typeof CommandClientMessage>

/** How a command ended: with a status, or by a signal. */
export const CommandExit = z.object({
  status: ExitStatus.nullable(),
  signal: SignalName.nullable(),
  /** Its time limit ended it. */
  timedOut: z.boolean(),
  durationMs: z.number().nonnegative(),
  /** Processes that outlived even SIGKILL, as those that wait for a dead disk do. */
  left: z.array(z.int()),
})
export type CommandExit = z.infer<typeof CommandExit>

export const CommandStream = z.enum(["stdout", "stderr"])
export type CommandStream = z.infer<typeof CommandStream>

/** What is there of a stream, by the number of bytes before it. */
export const CommandOutput = z.object({
  /** The first byte that is still kept. */
  from: z.int(),
  /** The byte that comes next. */
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
  /** Null while it runs. */
  exit: CommandExit.nullable(),
  /** Of one in the background; of others nothing is kept. */
  output: z.record(CommandStream, CommandOutput).nullable(),
})
export type CommandInfo = z.infer<typeof CommandInfo>

export const CommandList = z.object({ commands: z.array(CommandInfo) })
export type CommandList = z.infer<typeof CommandList>

/** What a client hears, beside the bytes of output. */
export const CommandServerMessage = z.discriminatedUnion("type", [
  z.object({ type: z.literal("started"), id: CommandId, pid: z.int().positive() }),
  /** First on a connection that attaches. */
  z.object({ type: z.literal("attached"), command: CommandInfo }),
  /** These bytes of a stream were not kept; what comes next is what follows them. */
  z.object({ type: z.literal("dropped"), stream: CommandStream, bytes: z.int().nonnegative() }),
  /** Last, after all output. */
  z.object({ type: z.literal("exit"), ...CommandExit.shape }),
  /** Last. */
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
