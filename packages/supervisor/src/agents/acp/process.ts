import { dirname, join } from "node:path"
import type { PromptId } from "@berth/protocol/ids"
import type { Readiness } from "../../processes/readiness/readiness.ts"
import type { Conversation, ProcessSpec } from "../../processes/spec.ts"
import type { ProcessTree } from "../../processes/tree/tree.ts"
import { makeEmptyDirectory } from "../empty-directory.ts"
import { KeptProcess } from "../kept-process.ts"
import type { SharedLife } from "../or-interrupted.ts"
import type { AgentParts } from "../parts.ts"
import { endOfLink, type LinkEnd } from "./end-of-link.ts"
import type { Abilities, Link, Served } from "./link.ts"
import { orAborted } from "./or-aborted.ts"
import { requireProgram } from "./program.ts"

/** How an agent is started. */
export interface AcpProgram {
  /** For messages. */
  readonly title: string
  readonly command: readonly [string, ...string[]]
  /** The environment of its process, from that of the workspace and the keys. Default: just that. */
  readonly environment?: (own: Environment) => Environment
}

type Environment = Readonly<Record<string, string>>

/** One life of the agent: what was said to an earlier one, it knows only if it has kept it. */
export interface Life extends SharedLife {
  readonly number: number
  readonly link: Link
  readonly abilities: Abilities
  /** Those that the agent was given and has not ended. */
  readonly prompts: Set<PromptId>
  /** Resolves when the link is over, and the process has ended. */
  readonly ended: Promise<LinkEnd>
}

/** An agent that is spoken to over its standard input and output, kept running. */
export class AgentProcess {
  readonly #parts: AgentParts
  readonly #program: AcpProgram
  readonly #served: Served
  readonly #process: KeptProcess
  #life: Life | undefined
  #lives = 0

  constructor(parts: AgentParts, program: AcpProgram, served: Served) {
    this.#parts = parts
    this.#program = program
    this.#served = served
    this.#process = new KeptProcess(program.title, async () =>
      parts.processes.start(await this.#spec()),
    )
  }

  /** The life that answers now; starts one where none is kept running, and waits for it. */
  async life(signal: AbortSignal): Promise<Life> {
    await this.#process.ready(signal)
    if (this.#life?.link.over.aborted) {
      // It has just ended, which is not noticed yet, or it does not speak any more.
      await this.#process.replace()
      await this.#process.ready(signal)
    }
    return this.#life as Life
  }

  trouble(): string | undefined {
    return this.#process.trouble()
  }

  /** Ends that life because of a prompt, at once; another starts. One that has ended needs nothing. */
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
    const { places, user, environment, keys } = this.#parts
    const { command, environment: complete = (own) => own } = this.#program
    requireProgram(command[0], environment.PATH ?? "")
    const { openLink } = await import("./link.ts")
    let link: Link | undefined
    let exited: Promise<unknown> = Promise.resolve()
    const connect = (conversation: Conversation) => {
      link = openLink(conversation, this.#served)
      exited = conversation.exited
      link.over.addEventListener("abort", () => void this.#served.terminals.releaseAll())
    }
    const readiness: Readiness = {
      description: "it did not answer",
      wait: async (_, signal) => {
        const opened = link as Link
        const abilities = await orAborted(opened.initialized, signal)
        const number = ++this.#lives
        const prompts = new Set<PromptId>()
        const { clock } = this.#parts
        /** An agent without a prompt is not started again by itself: it could break its connection each time. */
        const end = async (isAtWork: boolean) => {
          if (number !== this.#lives) return
          await (isAtWork ? this.#process.replace() : this.#process.end())
        }
        const ended = endOfLink({ link: opened, clock, exited, prompts, end })
        this.#life = { number, link: opened, abilities, prompts, ended, endedFor: undefined }
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
