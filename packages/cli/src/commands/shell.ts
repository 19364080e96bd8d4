import { constants } from "node:os"
import { BerthError } from "@berth/protocol/errors"
import type { Sandbox } from "@berth/sdk/sandboxes"
import type { TerminalView } from "@berth/sdk/terminals"
import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { BERTH_FAILED } from "../exit-status.ts"
import { connect, findSandbox } from "../server.ts"
import { writeTo } from "../streams.ts"
import { operands } from "./exec.ts"

const HELP = `
Needs a terminal; berth exec runs commands without one. The exit status is that of the shell or the command.
What runs in the terminal ends with it; what is to go on needs a session of its own (setsid).

Examples:
  berth shell app
  berth shell app --cwd /tmp -- htop`

export const define: DefineCommand = async (command, { exitWith }) => {
  command.parent?.enablePositionalOptions()
  command
    .description("Opens a terminal in a sandbox.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("[command...]", "what runs in it; default: the user's shell")
    .option("--cwd <directory>", "where it runs; default: the workspace")
    .passThroughOptions()
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, line: string[], { cwd, ...host }) => {
    if (!process.stdin.isTTY || !process.stdout.isTTY)
      throw new BerthError(
        "input.usage",
        "berth shell needs a terminal: use berth exec without one",
      )
    exitWith(BERTH_FAILED)
    const sandbox = await findSandbox(await connect(host), name)
    const env = { TERM: process.env.TERM ?? "xterm-256color" }
    const view = await sandbox.pty.create({
      ...{ env, ...sizeOf(process.stdout) },
      ...(operands(line).length > 0 && { command: operands(line) }),
      ...(cwd !== undefined && { cwd }),
    })
    exitWith(await attend(sandbox, view))
  })
}

/** Passes everything on until the terminal has ended. However this ends, our own terminal is as it was. */
const attend = async (sandbox: Sandbox, view: TerminalView): Promise<number> => {
  const { stdin, stdout } = process
  const onResize = () => void view.resize(sizeOf(stdout))
  const onInput = (bytes: Buffer) => void view.write(bytes)
  let isOver = false
  // Our terminal was closed, or somebody ends us: nothing is left behind.
  const onEnd = () => {
    void sandbox.pty.kill(view.id).catch(() => view.close())
  }
  process.on("SIGHUP", onEnd).on("SIGTERM", onEnd)
  stdout.on("resize", onResize)
  stdin.setRawMode(true)
  stdin.on("data", onInput)
  stdin.on("end", onEnd)
  try {
    for await (const bytes of view.output) await writeTo(stdout, bytes)
    const { status, signal } = await view.exit
    isOver = true
    return status ?? 128 + (constants.signals[signal as NodeJS.Signals] ?? 0)
  } finally {
    stdin.setRawMode(false)
    stdin.off("data", onInput).off("end", onEnd)
    stdout.off("resize", onResize)
    process.off("SIGHUP", onEnd).off("SIGTERM", onEnd)
    view.close()
    stdin.destroy()
    if (!isOver) await sandbox.pty.kill(view.id).catch(() => {})
  }
}

/** Some terminals say 0 until they are shown. */
const sizeOf = ({ columns, rows }: NodeJS.WriteStream) => ({
  ...{ cols: columns || 80, rows: rows || 24 },
})
