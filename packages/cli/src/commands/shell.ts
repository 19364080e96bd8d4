import { spawnSync } from "node:child_process"
import { constants } from "node:os"
import { BerthError } from "@berth/protocol/errors"
import type { TerminalView } from "@berth/sdk/terminals"
import type { DefineCommand } from "../command.ts"
import { commandLineOf } from "../command-line.ts"
import { addConfigFlags } from "../config-flags.ts"
import { BERTH_FAILED } from "../exit-status.ts"
import { connect, findSandbox } from "../server.ts"
import { writeTo } from "../streams.ts"
import { shellWord } from "../terminal.ts"

const HELP = `
Needs a terminal; berth exec runs commands without one. The exit status is that of the shell or the command.
What runs in the terminal ends with it; what is to go on needs a session of its own (setsid). When the server
goes away, the terminal stays, and the error tells how to come back to it.

Examples:
  berth shell app
  berth shell app --cwd / -- htop`

export const define: DefineCommand = async (command, { exitWith, err }) => {
  command.parent?.enablePositionalOptions()
  command
    .description("Opens a terminal in a sandbox.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("[command...]", "the command to run; default: the user's shell")
    .option("--cwd <directory>", "the working directory; default: the only repo, or the workspace")
    .option("--attach <terminal>", "show an existing terminal, by its id, with its last output")
    .passThroughOptions()
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, words: string[]) => {
    const line = commandLineOf(command, words)
    const { cwd, attach, ...host } = command.opts()
    if (attach !== undefined && (line.length > 0 || cwd !== undefined))
      throw new BerthError(
        "input.usage",
        "--attach is to a terminal in which something runs already",
      )
    if (!process.stdin.isTTY || !process.stdout.isTTY)
      throw new BerthError(
        "input.usage",
        "berth shell needs a terminal: use berth exec without one",
      )
    exitWith(BERTH_FAILED)
    const sandbox = await findSandbox(await connect(host), name, err, { start: true })
    const env = { TERM: process.env.TERM ?? "xterm-256color" }
    const size = sizeOf(process.stdout)
    const view =
      attach === undefined
        ? await sandbox.pty.create({
            env,
            ...size,
            ...(line.length > 0 && { command: line }),
            ...(cwd !== undefined && { cwd }),
          })
        : await sandbox.pty.attach(attach)
    if (attach !== undefined) await view.resize(size)
    // A terminal that others may look at goes on without this command; one that was made here ends with it.
    const leave = async () => {
      if (attach === undefined) await sandbox.pty.kill(view.id)
      else view.close()
    }
    exitWith(await attend(view, leave))
  })
}

/** Passes input and output on until the terminal has ended. However this ends, the local terminal is restored. */
const attend = async (view: TerminalView, leave: () => Promise<void>): Promise<number> => {
  const { stdin, stdout } = process
  const onResize = () => void view.resize(sizeOf(stdout))
  const onInput = (bytes: Buffer) => void view.write(bytes)
  // The local terminal was closed, or this process is asked to end.
  const onEnd = () => void leave().catch(() => view.close())
  process.on("SIGHUP", onEnd).on("SIGTERM", onEnd)
  stdout.on("resize", onResize)
  stdin.setRawMode(true)
  passOutputUnchanged()
  stdin.on("data", onInput)
  stdin.on("end", onEnd)
  try {
    for await (const bytes of view.output) await writeTo(stdout, bytes)
    const { status, signal } = await view.exit
    return status ?? 128 + (constants.signals[signal as NodeJS.Signals] ?? 0)
  } catch (cause) {
    const isLeft = await leave().then(() => true, isGone)
    if (isLeft) throw cause
    throw new BerthError("bridge.dropped", "the server went away, and the terminal goes on", {
      details: {
        terminal: view.id,
        toComeBack: `berth shell SANDBOX --attach=${shellWord(view.id)}`,
      },
      cause,
    })
  } finally {
    stdin.setRawMode(false)
    stdin.off("data", onInput).off("end", onEnd)
    stdout.off("resize", onResize)
    process.off("SIGHUP", onEnd).off("SIGTERM", onEnd)
    view.close()
    stdin.destroy()
  }
}

/** Whether there is nothing left to end. */
const isGone = (thrown: unknown): boolean => thrown instanceof BerthError && thrown.status === 404

/**
 * Turns output processing off. In Node's raw mode the local terminal still makes two characters of each newline, which
 * the one inside has done where it is wanted; programs that draw use newlines to go down. It is restored with the raw
 * mode. A system without `stty` goes without.
 */
const passOutputUnchanged = (): void => {
  spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] })
}

/** Some terminals report a size of 0 until they are shown. */
const sizeOf = ({ columns, rows }: NodeJS.WriteStream) => ({
  cols: columns || 80,
  rows: rows || 24,
})
