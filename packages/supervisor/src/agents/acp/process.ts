import { dirname, join } from "node:path"
import type { PromptId } from "@berth/protocol/ids"
import { abortable } from "../../processes/abortable.ts"
import type { Readiness } from "../../processes/readiness/readiness.ts"
import type { Conversation, ProcessSpec } from "../../processes/spec.ts"
import type { ProcessTree } from "../../processes/tree/tree.ts"
import { makeEmptyDirectory } from "../empty-directory.ts"
import { ManagedProcess } from "../managed-process.ts"
import type { SharedLife } from "../or-interrupted.ts"
import type { AgentParts } from "../parts.ts"
import type { Abilities, Connection, Served } from "./connection.ts"
import { type ConnectionEnd, endOfConnection } from "./end-of-connection.ts"
import { requireProgram } from "./program.ts"

/** The program of an agent, and how to start it. */
export interface AcpProgram {
  /** The agent's name in messages. */
  readonly title: string
  readonly command: readonly [string, ...string[]]
  /** Makes the environment of the agent's process from that of the workspace and the keys. Default: no change. */
  readonly environment?: (own: Environment) => Environment
}

type Environment = Readonly<Record<string, string>>

/**
 * One process of the agent, from start to exit. It knows an earlier one's conversations only if the agent saved them.
 */
export interface Life extends SharedLife {
  readonly number: number
  readonly connection: Connection
  readonly abilities: Abilities
  /** Those that the agent was given and has not ended. */
  readonly prompts: Set<PromptId>
  /** Resolves when the connection is over, and the process has ended. */
  readonly ended: Promise<ConnectionEnd>
}

/** Keeps an agent's process running, and connects to its standard input and output. */
export class AgentProcess {
  readonly #parts: AgentParts
  readonly #program: AcpProgram
  readonly #served: Served
  readonly #process: ManagedProcess
  #life: Life | undefined
  #lives = 0

  constructor(parts: AgentParts, program: AcpProgram, served: Served) {
    this.#parts = parts
    this.#program = program
    this.#served = served
    this.#process = new ManagedProcess(program.title, async () =>
      parts.processes.start(await this.#spec()),
    )
  }

  /** Returns the current process and its connection. Starts one if none runs, and waits until it is ready. */
  async life(signal: AbortSignal): Promise<Life> {
    await this.#process.ready(signal)
    if (this.#life?.connection.over.aborted) {
      // The process has exited and its supervisor has not noticed yet, or it closed its output.
      await this.#process.replace()
      await this.#process.ready(signal)
    }
    return this.#life as Life
  }

  trouble(): string | undefined {
    return this.#process.trouble()
  }

  /** Ends the given process at once because of a prompt, and starts another. Does nothing if it has ended already. */
  async replace(life: Life, prompt: PromptId): Promise<void> {
    if (life.number !== this.#lives || !this.#process.isReady) return
    life.endedFor = prompt
    await this.#process.replace()
  }

  get grown(): ProcessTree | undefined {
    return this.#process.grown
  }

  get pid(): number | undefined {
    return this.#process.pid
  }

  lastOutput(): string {
    return this.#process.lastOutput()
  }

  async #spec(): Promise<ProcessSpec> {
    const { clock, places, user, environment, keys } = this.#parts
    const { command, environment: complete = (own) => own } = this.#program
    requireProgram(command[0], environment.PATH ?? "")
    const { openConnection } = await import("./connection.ts")
    let connection: Connection | undefined
    let exited: Promise<unknown> = Promise.resolve()
    const connect = (conversation: Conversation) => {
      connection = openConnection(conversation, this.#served, clock)
      exited = conversation.exited
      connection.over.addEventListener("abort", () => void this.#served.terminals.releaseAll())
    }
    const readiness: Readiness = {
      description: "it did not answer",
      wait: async (_, signal) => {
        const opened = connection as Connection
        const abilities = await abortable(opened.initialized, signal)
        const number = ++this.#lives
        const prompts = new Set<PromptId>()
        /** An agent without a prompt is not started again by itself: it could break its connection each time. */
        const end = async (isAtWork: boolean) => {
          if (number !== this.#lives) return
          await (isAtWork ? this.#process.replace() : this.#process.end())
        }
        const ended = endOfConnection({ over: opened.over, clock, exited, prompts, end })
        this.#life = { number, connection: opened, abilities, prompts, ended, endedFor: undefined }
      },
    }
    return {
      name: "acp",
      command,
      user,
      origin: "agent",
      connect,
      readiness,
      env: complete({ ...environment, ...keys.environment }),
      cwd: await makeEmptyDirectory(join(dirname(places.logs), "berth-acp")),
      log: { path: join(places.logs, "acp.log") },
    }
  }
}
