import type { CommandExit } from "@berth/protocol/commands"
import { BerthError } from "@berth/protocol/errors"
import type { RunningCommand } from "@berth/sdk/commands"
import type { DefineCommand } from "../command.ts"
import { statusOf } from "../command-end.ts"
import { commandLineOf } from "../command-line.ts"
import { addConfigFlags } from "../config-flags.ts"
import { BERTH_FAILED, DONE, NOT_STARTED } from "../exit-status.ts"
import { connect, findSandbox } from "../server.ts"
import { surviveBrokenPipe, writeTo } from "../streams.ts"
import { addVariableFlags, variablesOf } from "../variables.ts"

const HELP = `
Standard input, output, error and the exit status are those of the command; a signal gives 128 and its number, as in
shells. SIGINT and SIGTERM are passed on, three times; then the command is ended. Status 124: the command's time was
up. Status 127: the command could not be started. Status 125: Berth failed, not the command.

With --detach the command runs in the background and keeps its sandbox; its id is written to standard output. berth
commands lists background commands, shows their output, and ends them.

Examples:
  berth exec app -- npm test
  echo hello | berth exec app -- tee greeting
  berth exec app --user root --cwd / -- ls -l
  berth exec app --env NPM_TOKEN -- npm publish
  berth exec app --detach -- npm run dev`

/** After this many signals, the connection is closed: the sender means it. */
const MAX_SIGNALS = 3

export const define: DefineCommand = async (command, { out, err, exitWith }) => {
  command.parent?.enablePositionalOptions()
  command
    .description("Runs a command in a sandbox, and ends with it.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("<command...>", "the program and its arguments; no shell is involved")
    .option("--cwd <directory>", "the working directory; default: the only repo, or the workspace")
    .option("--user <user>", "agent or root; default: agent")
    .option("-d, --detach", "start it in the background, and write its id")
    .option("--timeout <seconds>", "end it after this time")
    .passThroughOptions()
    .addHelpText("after", HELP)
  addVariableFlags(command, "for it")
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, words: string[]) => {
    const line = commandLineOf(command, words)
    if (line.length === 0)
      throw new BerthError("input.usage", "missing required argument 'command'")
    const { cwd, env, envFile, user, timeout, detach, ...host } = command.opts()
    const given = {
      cwd,
      env: variablesOf({ env, envFile }, process.env),
      user: userOf(user),
      timeoutMs: millisecondsOf(timeout),
    }
    exitWith(BERTH_FAILED)
    const sandbox = await findSandbox(await connect(host), name, err, { start: true })
    const notStarted = (thrown: unknown) => {
      if (thrown instanceof BerthError && thrown.code.startsWith("process.")) exitWith(NOT_STARTED)
      throw thrown
    }
    if (detach) {
      const { id } = await sandbox.commands.start(line, defined(given)).catch(notStarted)
      out(`${id}\n`)
      return exitWith(DONE)
    }
    const running = await sandbox.commands
      .spawn(line, { ...defined(given), stdin: true })
      .catch(notStarted)
    exitWith(statusOf(await attend(running)))
  })
}

/** Passes input, output and signals on until the command has ended. */
const attend = async (running: RunningCommand): Promise<CommandExit> => {
  let signals = 0
  const onSignal = (signal: "SIGINT" | "SIGTERM") => {
    signals += 1
    if (signals > MAX_SIGNALS) running.close()
    else void running.signal(signal)
  }
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal)
  const streams = { stdout: process.stdout, stderr: process.stderr }
  for (const stream of Object.values(streams)) surviveBrokenPipe(stream)
  void feed(running).catch(() => {})
  try {
    for await (const piece of running.output) {
      if (!("bytes" in piece)) continue
      const isRead = await writeTo(streams[piece.stream], piece.bytes)
      if (!isRead) await running.signal("SIGPIPE")
    }
    return await running.exit
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal)
    // An unread standard input would keep this process alive.
    process.stdin.destroy()
    running.close()
  }
}

const feed = async (running: RunningCommand): Promise<void> => {
  for await (const bytes of process.stdin as AsyncIterable<Buffer>) await running.write(bytes)
  await running.endInput()
}

const userOf = (text: string | undefined): "agent" | "root" | undefined => {
  if (text === undefined || text === "agent" || text === "root") return text
  throw new BerthError("input.usage", `--user is agent or root, not ${text}`)
}

const millisecondsOf = (seconds: string | undefined): number | undefined => {
  if (seconds === undefined) return undefined
  const ms = Math.round(Number(seconds) * 1000)
  if (ms >= 1) return ms
  throw new BerthError("input.usage", `--timeout takes seconds, not ${seconds}`)
}

type Defined<Given> = { [Key in keyof Given]?: Exclude<Given[Key], undefined> }

const defined = <Given extends object>(given: Given): Defined<Given> =>
  Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as Defined<Given>
