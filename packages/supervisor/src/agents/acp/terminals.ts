import { BerthError } from "@berth/protocol/errors"
import { type Exit, type Launched, launch } from "../../processes/launch.ts"
import { ByteRing } from "../../processes/output/ring.ts"
import { endTree } from "../../processes/tree/end.ts"
import type { AgentParts } from "../parts.ts"

/** Limit of the terminals that an agent has open at the same time. */
const MAX_TERMINALS = 64
/** Limit of the kept output of a terminal, even if the agent asks for more. */
const MAX_OUTPUT_BYTES = 1024 * 1024
/** Time from SIGTERM to SIGKILL, well within the second that a stop may take. */
const END_GRACE_MS = 300

export interface TerminalStart {
  readonly sessionId: string
  readonly command: string
  readonly args?: readonly string[] | undefined
  readonly env?: readonly { readonly name: string; readonly value: string }[] | undefined
  readonly cwd?: string | null | undefined
  readonly outputByteLimit?: number | null | undefined
}

export interface ExitStatus {
  readonly exitCode: number | null
  readonly signal: string | null
}

interface Terminal {
  readonly session: string
  readonly launched: Launched
  readonly ring: ByteRing
}

/**
 * Runs commands at the agent's request, as the user. Ending a terminal ends every process that came from its command.
 */
export class Terminals {
  readonly #parts: AgentParts
  readonly #cwd: () => string
  readonly #terminals = new Map<string, Terminal>()
  #made = 0
  #starting = 0

  constructor(parts: AgentParts, cwd: () => string) {
    this.#parts = parts
    this.#cwd = cwd
  }

  async create(start: TerminalStart): Promise<string> {
    if (this.#terminals.size + this.#starting >= MAX_TERMINALS)
      throw new BerthError("terminals.too_many", "the agent has too many terminals open", {
        details: { limit: MAX_TERMINALS },
      })
    const { pipes, user, environment } = this.#parts
    const { command, args = [], env = [], cwd } = start
    this.#starting++
    const launched = await launch(
      {
        // A command without arguments is run by a shell.
        command: args.length === 0 ? ["/bin/sh", "-c", command] : [command, ...args],
        env: { ...environment, ...Object.fromEntries(env.map(({ name, value }) => [name, value])) },
        cwd: cwd ?? this.#cwd(),
        user,
        origin: "agent",
      },
      { pipes, conversation: false, signal: new AbortController().signal },
    ).finally(() => this.#starting--)
    const limit = Math.floor(start.outputByteLimit ?? MAX_OUTPUT_BYTES)
    const ring = new ByteRing(Math.max(1, Math.min(limit, MAX_OUTPUT_BYTES)))
    launched.output.listen((chunk) => ring.write(chunk))
    const id = `terminal-${++this.#made}`
    this.#terminals.set(id, { session: start.sessionId, launched, ring })
    return id
  }

  async output(id: string) {
    const { launched, ring } = this.#get(id)
    if (launched.exit !== undefined) await launched.output.settled()
    return {
      output: ring.text(),
      truncated: ring.writtenBytes > ring.length,
      ...(launched.exit && { exitStatus: statusOf(launched.exit) }),
    }
  }

  /** The kept output of a terminal; undefined if there is no such terminal. */
  text(id: string): string | undefined {
    return this.#terminals.get(id)?.ring.text()
  }

  async exited(id: string): Promise<ExitStatus> {
    return statusOf(await this.#get(id).launched.exited)
  }

  /** Ends the terminal's processes. Its output can be read until it is released. */
  async end(id: string): Promise<void> {
    await this.#end(this.#get(id))
  }

  async release(id: string): Promise<void> {
    const terminal = this.#get(id)
    this.#terminals.delete(id)
    await this.#end(terminal)
    terminal.launched.output.close()
  }

  /** Ends the terminals of one conversation, when its prompt is stopped. */
  async endOf(session: string): Promise<void> {
    const theirs = [...this.#terminals.values()].filter((terminal) => terminal.session === session)
    await Promise.all(theirs.map((terminal) => this.#end(terminal)))
  }

  /** Called when an agent's connection has closed, since an agent that has ended releases nothing. */
  async releaseAll(): Promise<void> {
    await Promise.all([...this.#terminals.keys()].map((id) => this.release(id)))
  }

  async #end({ launched }: Terminal): Promise<void> {
    await endTree(launched.tree, { clock: this.#parts.clock, graceMs: END_GRACE_MS })
  }

  #get(id: string): Terminal {
    const terminal = this.#terminals.get(id)
    if (terminal === undefined) throw new BerthError("terminals.unknown", `there is no ${id}`)
    return terminal
  }
}

const statusOf = ({ status, signal }: Exit): ExitStatus => ({ exitCode: status, signal })
