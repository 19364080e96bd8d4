import type {
  CommandExit,
  CommandId,
  CommandSignal,
  CommandStart,
  CommandStream,
} from "@berth/protocol/commands"
import { randomId } from "@berth/protocol/random-id"
import type { FeatureParts } from "../features/parts.ts"
import type { Clock } from "../processes/clock.ts"
import type { LaunchedApart } from "../processes/launch.ts"
import { type Listen, Output } from "../processes/output/output.ts"
import { COMMAND_STOP_GRACE_MS, STRAGGLER_GRACE_MS } from "../processes/run.ts"
import { endTree } from "../processes/tree/end.ts"
import type { Lookout } from "../processes/tree/lookout.ts"
import { prepare } from "./prepare.ts"
import { refusal } from "./refusal.ts"
import type { Starts } from "./starts.ts"
import { Stdin } from "./stdin.ts"

export interface CommandOptions {
  readonly parts: FeatureParts
  readonly starts: Starts
  readonly lookout: Lookout
  /** Called with output as it comes. A returned promise holds the command up. */
  readonly hear: Readonly<Record<CommandStream, Listen>>
  /** Cancels the start, as long as it has not happened. */
  readonly signal: AbortSignal
}

/** Time for the last output of a command that is cut short, if its reader does not read. */
export const LAST_OUTPUT_MS = 2_000

/** A started command, until none of its processes runs and all of its output is read. */
export class Command {
  readonly id = randomId("cmd") as CommandId
  readonly startedAt = new Date()
  readonly what: CommandStart
  readonly cwd: string
  readonly stdin: Stdin | undefined
  /** Never rejects. */
  readonly ended: Promise<CommandExit>
  readonly #launched: LaunchedApart
  readonly #outputs: readonly Output[]
  readonly #clock: Clock
  readonly #lookout: Lookout
  readonly #cut = new AbortController()
  #exit: CommandExit | undefined

  private constructor(
    what: CommandStart,
    cwd: string,
    launched: LaunchedApart,
    { parts, lookout, hear }: CommandOptions,
  ) {
    this.what = what
    this.cwd = cwd
    this.#launched = launched
    this.#clock = parts.clock
    this.#lookout = lookout
    this.stdin = launched.stdin && new Stdin(launched.stdin, parts.clock)
    this.#outputs = (["stdout", "stderr"] as const).map((stream) => {
      const output = new Output([launched[stream]])
      output.listen(hear[stream])
      return output
    })
    this.ended = this.#live()
  }

  /** Starts a command. Rejects if it cannot be started. */
  static async start(what: CommandStart, options: CommandOptions): Promise<Command> {
    const release = options.starts.take()
    const launch = prepare(what, options.parts)
    try {
      const launched = await options.starts.start(launch, what.stdin === true, options.signal)
      const command = new Command(what, launch.cwd, launched, options)
      void command.ended.then(release)
      return command
    } catch (thrown) {
      release()
      throw refusal(thrown, launch)
    }
  }

  get pid(): number {
    return this.#launched.pid
  }

  /** How the command ended; undefined while it runs. */
  get exit(): CommandExit | undefined {
    return this.#exit
  }

  /** Sends a signal to the command's process group. */
  signal(signal: CommandSignal): void {
    this.#launched.tree.signal([], signal)
  }

  /** Ends the command and everything that came from it. */
  end(): Promise<CommandExit> {
    this.#cut.abort()
    return this.ended
  }

  async #live(): Promise<CommandExit> {
    const beganAtMs = this.#clock.nowMs()
    const timedOut = (await this.#over()) === "too late"
    const left = await this.#endTree(timedOut)
    this.stdin?.close()
    await this.#allHeard()
    for (const output of this.#outputs) output.close()
    const { status, signal } = this.#launched.exit ?? { status: null, signal: null }
    const durationMs = this.#clock.nowMs() - beganAtMs
    this.#exit = { status, signal, timedOut, durationMs, left: [...left] }
    return this.#exit
  }

  /** Resolves when the command ended by itself, was cut short, or took too long. */
  #over(): Promise<"exit" | "cut" | "too late"> {
    const { timeoutMs } = this.what
    return new Promise((resolve) => {
      const takeBack =
        timeoutMs === undefined ? () => {} : this.#clock.after(timeoutMs, () => resolve("too late"))
      void this.#launched.exited.then(() => {
        takeBack()
        resolve("exit")
      })
      this.#cut.signal.addEventListener("abort", () => {
        takeBack()
        resolve("cut")
      })
    })
  }

  /** Ends the command's processes. Returns the pids of those that outlived it. */
  async #endTree(timedOut: boolean): Promise<readonly number[]> {
    const { tree, exited } = this.#launched
    const isCut = timedOut || this.#cut.signal.aborted
    const graceMs = isCut ? COMMAND_STOP_GRACE_MS : STRAGGLER_GRACE_MS
    const { left } = await endTree(this.#lookout.over(tree), { clock: this.#clock, graceMs })
    if (left.length === 0) await exited
    return left
  }

  /** Waits until the output is read. Listeners may take their time, unless the command is cut short. */
  #allHeard(): Promise<unknown> {
    const { signal } = this.#cut
    const tooLong = new Promise<void>((resolve) => {
      const wait = () => void this.#clock.after(LAST_OUTPUT_MS, resolve)
      if (signal.aborted) wait()
      else signal.addEventListener("abort", wait)
    })
    return Promise.race([tooLong, Promise.all(this.#outputs.map((output) => output.settled()))])
  }
}
