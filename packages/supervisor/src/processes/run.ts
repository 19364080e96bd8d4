import { BerthError } from "@berth/protocol/errors"
import type { Clock } from "./clock.ts"
import { type Heard, hear, type Said } from "./hear.ts"
import { type Exit, type Launch, type Launched, launch } from "./launch.ts"
import type { Listen } from "./output/output.ts"
import type { Pipes } from "./output/pipes.ts"
import { endTree } from "./tree/end.ts"
import type { ProcessTree } from "./tree/tree.ts"

/** Time from SIGTERM to SIGKILL when a command is cut short. Git removes its lock files in that time. */
export const COMMAND_STOP_GRACE_MS = 2_000
/** Grace for processes that a command left running without permission. */
export const STRAGGLER_GRACE_MS = 500
export interface Command extends Launch {
  /** Name of the command in messages: "git fetch". */
  readonly title: string
  readonly deadlineMs: number
  /**
   * Captures standard output, and passes `input` to standard input. Without it, standard input is empty, and standard
   * output and error are one output. Not for a command that leaves processes running, as their standard output would
   * have no reader.
   */
  readonly capture?: { readonly input?: string }
  /** Lets the command leave processes running, as a start hook does. Otherwise they are ended with it. */
  readonly keepBackground?: boolean
  readonly stopGraceMs?: number
  readonly log?: { readonly path: string; readonly maxBytes?: number }
}

export interface CommandParts {
  readonly clock: Clock
  readonly pipes?: Pipes | undefined
  /** Ends the command and everything that came from it. */
  readonly signal: AbortSignal
  /** Called with output as it comes, until the command has ended. A returned promise holds the command up. */
  readonly onOutput?: Listen | undefined
}

export type CommandEnd = Exit &
  Said & {
    readonly tookMs: number
    /** The processes that the command left running, with `keepBackground`. The caller has to end them. */
    readonly background: Background | undefined
    /** The number of left processes that were ended. */
    readonly stragglers: number
  }

export interface Background {
  readonly tree: ProcessTree
  readonly pids: readonly number[]
}

/**
 * Runs a command to its end. Resolves with any exit status. Rejects if it cannot be started, is cancelled or misses its
 * deadline; everything that came from it has then ended, or is listed in the details.
 */
export const runCommand = async (command: Command, parts: CommandParts): Promise<CommandEnd> => {
  const { clock, pipes, signal } = parts
  const { title, deadlineMs } = command
  const beganAtMs = clock.nowMs()
  const conversation = command.capture !== undefined
  const launched = await launch(command, { pipes, conversation, signal }).catch((thrown) => {
    throw signal.aborted ? cancelled(title, signal.reason) : thrown
  })
  const { log, capture } = command
  const heard = hear(launched, { clock, log, onOutput: parts.onOutput, input: capture?.input })
  const cut = new AbortController()
  const cancel = () => cut.abort(cancelled(title, signal.reason))
  const takeBack = clock.after(deadlineMs, () => cut.abort(tooLate(title, deadlineMs)))
  if (signal.aborted) cancel()
  signal.addEventListener("abort", cancel, { once: true })
  try {
    const exit = await exitOrCut(launched, cut.signal)
    if (exit === undefined) throw await cutShort(command, launched, heard, cut.signal, clock)
    const background = command.keepBackground ? await keep(launched) : undefined
    const stragglers = command.keepBackground ? 0 : await endStragglers(launched, clock)
    const said = await heard.end()
    return { ...exit, ...said, tookMs: clock.nowMs() - beganAtMs, background, stragglers }
  } finally {
    takeBack()
    signal.removeEventListener("abort", cancel)
  }
}

/** Resolves with how the command ended, or with undefined if it was cut short first. */
const exitOrCut = ({ exited }: Launched, cut: AbortSignal): Promise<Exit | undefined> =>
  new Promise((resolve) => {
    const onCut = () => resolve(undefined)
    if (cut.aborted) return onCut()
    cut.addEventListener("abort", onCut, { once: true })
    void exited.then((exit) => {
      cut.removeEventListener("abort", onCut)
      resolve(exit)
    })
  })

/** Ends everything, and returns the error with the reason and the last output. */
const cutShort = async (
  { title, stopGraceMs: graceMs = COMMAND_STOP_GRACE_MS }: Command,
  launched: Launched,
  heard: Heard,
  cut: AbortSignal,
  clock: Clock,
): Promise<BerthError> => {
  const { killed, left } = await endTree(launched.tree, { clock, graceMs })
  if (left.length === 0) await launched.exited
  await launched.output.settled()
  launched.output.close()
  const { lastOutput } = await heard.end()
  const reason = cut.reason as BerthError
  return new BerthError(reason.code, reason.message, {
    details: { ...reason.details, command: title, lastOutput, killed, left },
    cause: reason.cause,
  })
}

/** Keeps the background processes. Their output is still read and logged, so that they never wait for us. */
const keep = async ({ tree, output }: Launched): Promise<Background | undefined> => {
  await output.settled()
  const pids = (await tree.find()).map(({ pid }) => pid)
  if (pids.length === 0) output.close()
  else output.letGo()
  return pids.length === 0 ? undefined : { tree, pids }
}

const endStragglers = async ({ tree, output }: Launched, clock: Clock): Promise<number> => {
  const { asked } = await endTree(tree, { clock, graceMs: STRAGGLER_GRACE_MS })
  await output.settled()
  output.close()
  return asked
}

const cancelled = (title: string, cause: unknown): BerthError =>
  new BerthError("cancelled", `${title} was cancelled`, { cause })

const tooLate = (title: string, deadlineMs: number): BerthError =>
  new BerthError("deadline.exceeded", `${title} did not end within ${deadlineMs} ms`, {
    details: { deadlineMs },
  })
