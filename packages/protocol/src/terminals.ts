/**
 * Terminals in a sandbox: a program on a pty, with any number of viewers. It runs as the sandbox's user.
 *
 * - `POST /terminals` with a `TerminalStart`: 201 and its `TerminalInfo`.
 * - `GET /terminals` → `TerminalList`, `GET /terminals/{id}` → `TerminalInfo`: the terminals that run, and the last
 *   ones that have ended.
 * - WebSocket `/terminals/{id}/attach?from=N`: first `attached`, then the output from that byte on (default: all
 *   that is kept), then new output, and at last `exit` and the close.
 * - `DELETE /terminals/{id}` ends the terminal with everything that came from it, and forgets it: 200 and its
 *   `TerminalInfo`.
 *
 * Binary frames are bytes, both ways: the program's output, and typed input. A character may be cut anywhere. Text
 * frames are JSON: `TerminalClientMessage` and `TerminalServerMessage`. A viewer that counts the bytes since
 * `attached.from` can attach again where it was.
 *
 * **Size.** All viewers share one size: the last `resize` wins, and every viewer is told.
 *
 * **Slow viewers.** The program waits for the fastest viewer. A viewer that falls behind it by more than the
 * scrollback is closed with `TERMINAL_CLOSE.tooSlow`, and so are all that read nothing for half a minute. With no
 * viewer the program goes on.
 *
 * **The end.** When the program ends, the processes that it left in its session end too, such as background jobs. A
 * process that is to outlive the terminal has a session of its own (`setsid`).
 */
import { z } from "zod"
import { idWith } from "./ids.ts"
import { ExitStatus, SignalName } from "./process-end.ts"
import { hasNoNul, namesProgram, namesVariable } from "./rules.ts"
import { MAX_TERMINAL_CELLS } from "./terminal-limits.ts"

export const TerminalId = idWith("term")
export type TerminalId = z.infer<typeof TerminalId>

/** Text without NUL: the kernel ends a text at its first NUL. */
const SystemText = z.string().refine(hasNoNul, "must hold no NUL character")

const VariableName = SystemText.refine(namesVariable, "must be the name of a variable")

const Cells = z.int().min(1).max(MAX_TERMINAL_CELLS)

export const TerminalStart = z.strictObject({
  /** The program and its arguments. Default: the user's shell. */
  command: z.array(SystemText).min(1).refine(namesProgram, "must name a program").optional(),
  /**
   * The working directory. Default: the directory of the only repo, or the workspace. A relative one is below the
   * workspace.
   */
  cwd: SystemText.min(1).optional(),
  /** Variables beside the sandbox's own, which they override. */
  env: z.record(VariableName, SystemText).optional(),
  cols: Cells,
  rows: Cells,
})
export type TerminalStart = z.infer<typeof TerminalStart>

/** The end of the program: with a status, or by a signal. */
export const TerminalExit = z.object({
  status: ExitStatus.nullable(),
  signal: SignalName.nullable(),
})
export type TerminalExit = z.infer<typeof TerminalExit>

export const TerminalInfo = z.object({
  id: TerminalId,
  pid: z.int(),
  command: z.array(z.string()),
  cwd: z.string(),
  cols: z.int(),
  rows: z.int(),
  startedAt: z.iso.datetime(),
  /** Null while the program runs. */
  exit: TerminalExit.nullable(),
  viewers: z.int(),
  /** The kept output, by position: its first byte, and the next byte to come. */
  output: z.object({ from: z.int(), to: z.int() }),
})
export type TerminalInfo = z.infer<typeof TerminalInfo>

export const TerminalList = z.object({ terminals: z.array(TerminalInfo) })
export type TerminalList = z.infer<typeof TerminalList>

/** A viewer's message, beside typed input. */
export const TerminalClientMessage = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("resize"), cols: Cells, rows: Cells }),
])
export type TerminalClientMessage = z.infer<typeof TerminalClientMessage>

/** A message to a viewer, beside the output. */
export const TerminalServerMessage = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("attached"),
    /** The number of bytes before the first one that follows. */
    from: z.int().nonnegative(),
    /** Bytes that were asked for and are not kept any more. */
    missed: z.int().nonnegative(),
    cols: Cells,
    rows: Cells,
  }),
  z.object({ type: z.literal("resized"), cols: Cells, rows: Cells }),
  /** The last message, after all output. */
  z.object({ type: z.literal("exit"), ...TerminalExit.shape }),
])
export type TerminalServerMessage = z.infer<typeof TerminalServerMessage>
