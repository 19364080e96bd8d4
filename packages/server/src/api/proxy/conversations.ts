import { COMMAND_CHANNEL } from "@berth/protocol/command-limits"
import { CommandServerMessage } from "@berth/protocol/commands"
import { toWireError } from "@berth/protocol/errors"
import { FileChange, WatchMessage } from "@berth/protocol/files"
import { MAX_PENDING_CHANGES } from "@berth/protocol/files-limits"
import { listOf } from "@berth/protocol/list"
import { MAX_LISTED_PORTS } from "@berth/protocol/port-limits"
import { Port, PortControl, PortMessage } from "@berth/protocol/ports"
import { TerminalServerMessage } from "@berth/protocol/terminals"
import { z } from "zod"
import { command } from "./answers.ts"
import { isPathBelow } from "./listing.ts"
import { MAX_ERROR_BYTES } from "./read-answer.ts"
import { saidError } from "./said-error.ts"

/** The form of a sandbox's messages over a WebSocket. */
export interface Conversation {
  /** The schema of messages in text frames. */
  readonly schema: z.ZodType<{ readonly type: string }>
  readonly maxTextBytes: number
  /** Zero: there are no binary frames. */
  readonly maxBinaryBytes: number
  /** The first byte of each binary frame is one of these; undefined: binary frames are bytes from the first on. */
  readonly channels?: ReadonlySet<number>
  /** Messages that come first, and never again. If there are none, binary frames may come first. */
  readonly first: readonly string[]
  /** Messages after which nothing comes but the close. */
  readonly last: readonly string[]
  /** Whether the client may still have something to say after the last message. */
  readonly isHalfOpen?: boolean
}

/** Room for a read of a pipe or of a connection, and more. A supervisor's frames of output hold 64 KiB. */
const MAX_BINARY_BYTES = 1024 * 1024

/** Room for a command with long arguments, or for some hundred changes with long names. */
const MAX_TEXT_BYTES = 4 * 1024 * 1024
const MAX_PORTS_BYTES = 1024 * 1024
/** Room for a few words and numbers. */
const MAX_SMALL_BYTES = 64 * 1024

/** The most processes listed that outlived SIGKILL. */
const MAX_LEFT = 100_000

/** An error that a sandbox can have, from the table of errors. */
const error = z.unknown().transform((value, context) => {
  const said = saidError(value)
  const isShort = said !== undefined && JSON.stringify(said.details).length <= MAX_ERROR_BYTES
  if (isShort) return toWireError(said)
  context.addIssue({ code: "custom", message: "must be an error of a sandbox" })
  return z.NEVER
})

const [started, attached, dropped, exit, failed] = CommandServerMessage.options
const commandEnd = [
  exit
    .extend({ left: listOf(exit.shape.left.element, { max: MAX_LEFT }) })
    .refine(
      ({ status, signal, left }) => status !== null || signal !== null || left.length > 0,
      "must have a status or a signal",
    ),
  failed.extend({ error }),
] as const
const commandLast = ["exit", "error"]

const ofCommands = {
  maxTextBytes: MAX_TEXT_BYTES,
  maxBinaryBytes: MAX_BINARY_BYTES,
  channels: new Set<number>([COMMAND_CHANNEL.stdout, COMMAND_CHANNEL.stderr]),
  last: commandLast,
}

const run: Conversation = {
  ...ofCommands,
  schema: z.discriminatedUnion("type", [started, ...commandEnd]),
  first: ["started"],
}

const attach: Conversation = {
  ...ofCommands,
  schema: z.discriminatedUnion("type", [attached.extend({ command }), dropped, ...commandEnd]),
  first: ["attached"],
}

const terminal: Conversation = {
  schema: TerminalServerMessage,
  maxTextBytes: MAX_SMALL_BYTES,
  maxBinaryBytes: MAX_BINARY_BYTES,
  first: ["attached"],
  last: ["exit"],
}

/** Clients make files by these names, so each must be a path below the folder. */
const change = FileChange.refine(
  ({ path }) => path === "." || isPathBelow(path),
  "must be a path below the folder",
)
const [ready, changes, overflow, watchFailed] = WatchMessage.options

const watch: Conversation = {
  schema: z.discriminatedUnion("type", [
    ready,
    changes.extend({ changes: listOf(change, { min: 1, max: MAX_PENDING_CHANGES }) }),
    overflow,
    watchFailed.extend({ error }),
  ]),
  maxTextBytes: MAX_TEXT_BYTES,
  maxBinaryBytes: 0,
  first: ["ready"],
  last: ["error"],
}

const [ports, opened, closed] = PortMessage.options

const portWatch: Conversation = {
  schema: z.discriminatedUnion("type", [
    ports.extend({ ports: listOf(Port, { max: MAX_LISTED_PORTS }) }),
    opened,
    closed,
  ]),
  maxTextBytes: MAX_PORTS_BYTES,
  maxBinaryBytes: 0,
  first: ["ports"],
  last: [],
}

const portConnection: Conversation = {
  schema: PortControl,
  maxTextBytes: MAX_SMALL_BYTES,
  maxBinaryBytes: MAX_BINARY_BYTES,
  first: [],
  last: ["end"],
  isHalfOpen: true,
}

const CONVERSATIONS: readonly (readonly [RegExp, Conversation])[] = [
  [/^\/commands\/run$/, run],
  [/^\/commands\/[^/]+\/attach$/, attach],
  [/^\/terminals\/[^/]+\/attach$/, terminal],
  [/^\/files\/watch$/, watch],
  [/^\/ports\/watch$/, portWatch],
  [/^\/ports\/[^/]+\/connect$/, portConnection],
]

/** The conversation of a WebSocket, by its path with or without the query; undefined: no sandbox serves it. */
export const conversationAt = (path: string): Conversation | undefined => {
  const [plain = ""] = path.split("?")
  return CONVERSATIONS.find(([form]) => form.test(plain))?.[1]
}
