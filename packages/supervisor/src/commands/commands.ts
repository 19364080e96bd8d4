import { ENDED_COMMAND_KEPT_MS, MAX_ENDED_COMMANDS } from "@berth/protocol/command-limits"
import type {
  CommandInfo,
  CommandOutput,
  CommandStart,
  CommandStream,
} from "@berth/protocol/commands"
import { BerthError } from "@berth/protocol/errors"
import type { ActivityTracker } from "../features/activity-tracker.ts"
import type { FeatureParts } from "../features/parts.ts"
import { Lookout } from "../processes/tree/lookout.ts"
import { Command, type CommandOptions } from "./command.ts"
import type { OutputBuffer } from "./output-buffer.ts"
import { Room } from "./room.ts"
import { Starts } from "./starts.ts"
import { Tidy } from "./tidy.ts"

/** A command that outlives the connection that started it, with its kept output. */
export interface InBackground {
  readonly command: Command
  readonly output: Readonly<Record<CommandStream, OutputBuffer>>
  info(): CommandInfo
}

/** The commands of a sandbox: those that run, and background commands that ended recently. */
export class Commands {
  readonly #parts: FeatureParts
  readonly #tracker: ActivityTracker
  readonly #tidy: Tidy
  readonly #starts: Starts
  readonly #lookout: Lookout
  readonly #room = new Room()
  /** Commands for a client that waits for their end. */
  readonly #attended = new Map<string, Command>()
  readonly #background = new Map<string, InBackground>()
  /** Ended background commands in the order of their ends, each with a function that cancels its removal. */
  readonly #ended = new Map<string, () => void>()

  constructor(parts: FeatureParts, tracker: ActivityTracker) {
    this.#parts = parts
    this.#tracker = tracker
    this.#tidy = new Tidy(parts.clock)
    this.#starts = new Starts(parts.pipes, (running) => this.#tidy.onCount(running))
    this.#lookout = new Lookout(parts.user, () => this.#starts.idle())
  }

  /** Runs a command, which ends when the signal fires. */
  async run(
    start: CommandStart,
    { hear, signal }: Pick<CommandOptions, "hear" | "signal">,
  ): Promise<Command> {
    const command = await this.#start(start, hear, signal)
    this.#attended.set(command.id, command)
    const end = () => void command.end()
    signal.addEventListener("abort", end)
    void command.ended.then(() => {
      signal.removeEventListener("abort", end)
      this.#attended.delete(command.id)
    })
    if (signal.aborted) end()
    return command
  }

  /** Starts a background command. The signal cancels it until this resolves. */
  async runInBackground(start: CommandStart, signal: AbortSignal): Promise<InBackground> {
    const output = { stdout: this.#room.take(), stderr: this.#room.take() }
    try {
      const hear = {
        stdout: (chunk: Buffer) => output.stdout.write(chunk),
        stderr: (chunk: Buffer) => output.stderr.write(chunk),
      }
      const command = await this.#start(start, hear, signal)
      const shown = { command, output, info: () => infoOf(command, output) }
      this.#background.set(command.id, shown)
      this.#tracker.commandStarted(command.id)
      void command.ended.then(() => this.#onEnded(shown))
      if (signal.aborted) await this.remove(command.id)
      signal.throwIfAborted()
      return shown
    } catch (thrown) {
      for (const each of Object.values(output)) this.#room.giveBack(each)
      throw thrown
    }
  }

  list(): CommandInfo[] {
    return [
      ...[...this.#attended.values()].map((command) => infoOf(command, undefined)),
      ...[...this.#background.values()].map((shown) => shown.info()),
    ]
  }

  info(id: string): CommandInfo {
    return this.#background.get(id)?.info() ?? infoOf(this.find(id), undefined)
  }

  find(id: string): Command {
    const command = this.#attended.get(id) ?? this.#background.get(id)?.command
    if (command === undefined) throw unknown(id)
    return command
  }

  findInBackground(id: string): InBackground {
    const shown = this.#background.get(id)
    if (shown !== undefined) return shown
    throw this.#attended.has(id)
      ? new BerthError("commands.unknown", `${id} does not run in the background`)
      : unknown(id)
  }

  /** Ends a command and forgets it. */
  async remove(id: string): Promise<CommandInfo> {
    const command = this.find(id)
    const output = this.#background.get(id)?.output
    await command.end()
    this.#forget(id)
    return infoOf(command, output)
  }

  /** Ends all commands, including those that are being started. */
  async close(): Promise<void> {
    await this.#starts.idle()
    const commands = [...this.#attended.values(), ...this.#background.values().map(commandOf)]
    await Promise.all(commands.map((command) => command.end()))
    for (const id of [...this.#background.keys()]) this.#forget(id)
    this.#tidy.close()
  }

  #start(what: CommandStart, hear: CommandOptions["hear"], signal: AbortSignal): Promise<Command> {
    const own = { parts: this.#parts, starts: this.#starts, lookout: this.#lookout }
    return Command.start(what, { ...own, hear, signal })
  }

  #onEnded({ command: { id }, output }: InBackground): void {
    this.#tracker.commandEnded(id)
    for (const each of Object.values(output)) each.end()
    const takeBack = this.#parts.clock.after(ENDED_COMMAND_KEPT_MS, () => this.#forget(id))
    this.#ended.set(id, takeBack)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > MAX_ENDED_COMMANDS && oldest !== undefined) this.#forget(oldest)
  }

  #forget(id: string): void {
    this.#ended.get(id)?.()
    this.#ended.delete(id)
    for (const each of Object.values(this.#background.get(id)?.output ?? {}))
      this.#room.giveBack(each)
    this.#background.delete(id)
  }
}

const commandOf = ({ command }: InBackground): Command => command

const infoOf = (command: Command, output: InBackground["output"] | undefined): CommandInfo => ({
  id: command.id,
  pid: command.pid,
  command: command.what.command,
  cwd: command.cwd,
  user: command.what.user ?? "agent",
  background: output !== undefined,
  startedAt: command.startedAt.toISOString(),
  exit: command.exit ?? null,
  output: output ? { stdout: span(output.stdout), stderr: span(output.stderr) } : null,
})

const span = ({ from, to }: OutputBuffer): CommandOutput => ({ from, to })

const unknown = (id: string): BerthError =>
  new BerthError("commands.unknown", `there is no command ${id}`)
