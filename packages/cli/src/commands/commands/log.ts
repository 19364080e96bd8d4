import { StringDecoder } from "node:string_decoder"
import { type CommandExit, type CommandInfo, CommandStream } from "@berth/protocol/commands"
import type { CommandOutputPiece, RunningCommand } from "@berth/sdk/commands"
import { type CommandContext, type DefineCommand, toJsonLine } from "../../command.ts"
import { sayExit, statusOf } from "../../command-end.ts"
import { addConfigFlags } from "../../config-flags.ts"
import { BERTH_FAILED, DONE, LEFT } from "../../exit-status.ts"
import { findCommand } from "../../sandbox-commands.ts"
import { connect, findSandbox } from "../../server.ts"
import { cancelledBySignal } from "../../signals.ts"
import { surviveBrokenPipe, writeTo } from "../../streams.ts"

const HELP = `
The last megabyte of standard output and of standard error is kept, and written to standard output and standard
error. With --follow, new output is shown until the command ends, with its exit status; ctrl-c leaves the command
running. With --json every piece of output is a line with its stream and its text, and the last line tells the exit,
if the command has ended.

Examples:
  berth commands log app
  berth commands log app cmd-0123 --follow`

export const defineLog: DefineCommand = async (command, context) => {
  command
    .summary("show what a command in the background has written")
    .description("Shows what a command in the background has written.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("[command]", "its id, or the beginning of it; default: the last that was started")
    .option("--follow", "then show new output, until the command ends")
    .option("--json", "write JSON, one line for each piece")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(
    async (name: string, which: string | undefined, { follow = false, json = false, ...host }) => {
      context.exitWith(BERTH_FAILED)
      const sandbox = await findSandbox(await connect(host), name, context.err)
      const found = await findCommand(sandbox, which)
      const running = await sandbox.commands.attach(found.id)
      const page = json ? jsonPage(context) : textPage(context)
      const until = follow || found.exit !== null ? undefined : found.output
      const end = await cancelledBySignal(async (signal) => {
        signal.addEventListener("abort", () => running.close())
        try {
          return await show(running, until, page)
        } catch (thrown) {
          if (!signal.aborted) throw thrown
          return "left"
        } finally {
          running.close()
        }
      })
      if (end === "left") return context.exitWith(LEFT)
      page.end(end)
      context.exitWith(follow && end !== "running" ? statusOf(end) : DONE)
    },
  )
}

/** The output of this command. */
interface Page {
  /** Writes a piece. Returns whether anybody still reads. */
  piece(piece: CommandOutputPiece): Promise<boolean>
  end(end: CommandExit | "running"): void
}

/** Shows the output up to these positions, or to its end. */
const show = async (
  running: RunningCommand,
  until: CommandInfo["output"] | undefined,
  page: Page,
): Promise<CommandExit | "running" | "left"> => {
  const shown: Record<CommandStream, number> = { stdout: 0, stderr: 0 }
  const isShown = () =>
    until != null && shown.stdout >= until.stdout.to && shown.stderr >= until.stderr.to
  if (isShown()) return "running"
  for await (const piece of running.output) {
    if (!(await page.piece(piece))) return "left"
    shown[piece.stream] += "bytes" in piece ? piece.bytes.length : piece.dropped
    if (isShown()) return "running"
  }
  return await running.exit
}

/** Bytes as they are, each stream to its own. */
const textPage = ({ err }: CommandContext): Page => {
  const streams = { stdout: process.stdout, stderr: process.stderr }
  for (const stream of Object.values(streams)) surviveBrokenPipe(stream)
  return {
    piece: async (piece) => {
      if ("bytes" in piece) return await writeTo(streams[piece.stream], piece.bytes)
      err(`(${piece.dropped} bytes of ${piece.stream} are not kept)\n`)
      return true
    },
    end: (end) => err(`(${end === "running" ? "runs" : sayExit(end)})\n`),
  }
}

const jsonPage = ({ out }: CommandContext): Page => {
  const decoders = { stdout: new StringDecoder(), stderr: new StringDecoder() }
  const say = (stream: CommandStream, text: string) => {
    if (text !== "") out(toJsonLine({ stream, text }))
  }
  return {
    piece: async ({ stream, ...piece }) => {
      if ("bytes" in piece) say(stream, decoders[stream].write(piece.bytes))
      else out(toJsonLine({ stream, dropped: piece.dropped }))
      return true
    },
    end: (end) => {
      for (const stream of CommandStream.options) say(stream, decoders[stream].end())
      if (end !== "running") out(toJsonLine({ exit: end }))
    },
  }
}
