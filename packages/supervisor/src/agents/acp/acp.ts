import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import type { Permissions } from "@berth/protocol/workspace"
import { abortable } from "../../processes/abortable.ts"
import type { Agent, AgentReport, Say } from "../agent.ts"
import { failingOf } from "../failure.ts"
import { orInterrupted } from "../or-interrupted.ts"
import type { AgentParts } from "../parts.ts"
import { Strays } from "../strays.ts"
import { failureOf } from "./failure.ts"
import { type AcpProgram, AgentProcess, type Life } from "./process.ts"
import { runPrompt } from "./run-prompt.ts"
import { Sessions } from "./sessions.ts"
import { Terminals } from "./terminals.ts"
import { Turn } from "./turn.ts"
import { UserFiles } from "./user-files.ts"

/** Time limit for opening a conversation, or resuming one with its whole history. */
const CONVERSATION_LIMIT_MS = 60_000

export interface AcpOptions extends AcpProgram {
  /** The agent's name in the workspace's spec. */
  readonly name: string
  /** The session mode to set, one of those that the agent offers. */
  readonly mode?: string | undefined
  /** The answer to the agent's permission requests. */
  readonly permissions: Permissions
  /** Sent as `_meta`, which is outside the protocol, with every conversation that is opened or resumed. */
  readonly meta?: Readonly<Record<string, unknown>>
  /** Describes the credential that the agent needs to be logged in, for error messages. */
  readonly login?: string
}

/** An agent that speaks the Agent Client Protocol: one process, with a conversation for each session. */
export const acpAgent = (parts: AgentParts, options: AcpOptions): Agent => new Acp(parts, options)

class Acp implements Agent {
  readonly name: string
  /** False: the agent's program may come with the repo, or be installed by a hook. */
  readonly startsEarly = false
  readonly files = []
  readonly #parts: AgentParts
  readonly #options: AcpOptions
  readonly #title: string
  readonly #process: AgentProcess
  readonly #terminals: Terminals
  readonly #sessions: Sessions
  readonly #strays: Strays
  /** The turns of running prompts, by the agent's own id of the conversation. */
  readonly #turns = new Map<string, { readonly prompt: PromptId; readonly turn: Turn }>()
  #directory: string | undefined

  constructor(parts: AgentParts, options: AcpOptions) {
    const files = new UserFiles(parts)
    this.#parts = parts
    this.#options = options
    this.name = options.name
    this.#title = options.title
    this.#terminals = new Terminals(parts, () => this.#directory ?? parts.places.home)
    this.#sessions = new Sessions(files, parts.places.home)
    this.#strays = new Strays(parts.clock)
    this.#process = new AgentProcess(parts, options, {
      files,
      terminals: this.#terminals,
      // A failure to record the event ends the sandbox elsewhere; nothing to do here.
      update: async (session, update) =>
        this.#turn(session)
          ?.hear(update)
          .catch(() => {}),
      permission: async (request) => {
        const turn = this.#turn(request.sessionId)
        return turn ? turn.permit(request) : { outcome: { outcome: "cancelled" } }
      },
      wrote: async (session, path) => this.#turn(session)?.wrote(path),
    })
  }

  async start(signal: AbortSignal, tell: (progress: string) => void): Promise<AgentReport> {
    const beganAtMs = this.#parts.clock.nowMs()
    tell(`${this.#title} is starting`)
    const { name, version } = (await this.#process.life(signal)).abilities
    const readyMs = Math.round(this.#parts.clock.nowMs() - beganAtMs)
    return {
      did: `${name} ${version} answers after ${readyMs} ms`,
      facts: { agent: name, version, pid: this.#process.pid ?? 0, readyMs },
    }
  }

  async attach(directory: string): Promise<AgentReport> {
    this.#directory = directory
    return { did: `${this.#title} works in ${directory}`, facts: { directory } }
  }

  trouble(): string | undefined {
    return this.#directory === undefined ? "it has no directory yet" : this.#process.trouble()
  }

  lastOutput(): string {
    return this.#process.lastOutput()
  }

  answer(prompt: PromptId, answer: AskAnswer): boolean {
    const running = [...this.#turns.values()].find((each) => each.prompt === prompt)
    return running?.turn.answer(answer) ?? false
  }

  async prompt(start: PromptStart, say: Say, signal: AbortSignal): Promise<PromptResult> {
    const since = this.#strays.begin()
    try {
      const onFailure = () => this.#sessions.forget(start.session)
      const told = { prompt: start.prompt, say, signal, onFailure }
      return await failingOf(() => this.#prompt(start, say, signal), told)
    } finally {
      if (signal.aborted) await this.#strays.end(this.#process.grown, since)
      this.#strays.over(since)
    }
  }

  async #prompt(start: PromptStart, say: Say, signal: AbortSignal): Promise<PromptResult> {
    const { prompt } = start
    const run = (life: Life, open: () => Promise<string>): Promise<PromptResult> => {
      const take = async () => this.#take(start, { life, session: await open(), say, signal })
      return orInterrupted(() => this.#orBroken(take, life), { prompt, life, signal })
    }
    const first = await this.#process.life(signal)
    const opened = await this.#unlessLost(start, { life: first, say, signal })
    if (opened !== undefined) return await run(first, async () => opened)
    await first.ended
    const next = await this.#process.life(signal)
    return await run(next, () => this.#conversation(start, { life: next, say, signal }))
  }

  /**
   * Finds the conversation. Returns undefined if the agent ended meanwhile for another reason than this prompt: it has
   * done nothing for it, so its next life is asked, once.
   */
  async #unlessLost(
    start: PromptStart,
    parts: { life: Life; say: Say; signal: AbortSignal },
  ): Promise<string | undefined> {
    const { life, signal } = parts
    try {
      return await this.#conversation(start, parts)
    } catch (thrown) {
      const isItsOwn = life.endedFor === start.prompt
      if (signal.aborted || !life.connection.over.aborted || isItsOwn) throw thrown
      return undefined
    }
  }

  /**
   * Runs a prompt. It fails where the agent broke its connection while it worked on that prompt alone; where it worked on
   * others, too, nobody knows for which of them it did, and all of them are interrupted.
   */
  async #orBroken(run: () => Promise<PromptResult>, life: Life): Promise<PromptResult> {
    try {
      return await run()
    } catch (thrown) {
      if (!life.connection.over.aborted) throw thrown
      const { isBroken, prompts } = await life.ended
      if (!isBroken) throw thrown
      const reason = `${this.#title} closed its connection and did not exit, so its process was ended`
      if (prompts.size > 1) return { state: "interrupted", reason }
      throw new BerthError("agent.unavailable", reason, { cause: thrown })
    }
  }

  async #take(
    start: PromptStart,
    { life, session, say, signal }: { life: Life; session: string; say: Say; signal: AbortSignal },
  ): Promise<PromptResult> {
    const { prompt } = start
    const { permissions } = this.#options
    const terminalText = (id: string) => this.#terminals.text(id)
    const turn = new Turn({ prompt, permissions, say, terminalText })
    this.#turns.set(session, { prompt, turn })
    life.prompts.add(prompt)
    try {
      return await runPrompt(start, {
        options: this.#options,
        life,
        clock: this.#parts.clock,
        session,
        turn,
        signal,
        endTerminals: () => this.#terminals.endOf(session),
        endProcess: () => this.#process.replace(life, prompt),
      })
    } finally {
      this.#turns.delete(session)
      life.prompts.delete(prompt)
      await turn.close()
    }
  }

  /** Returns the agent's own id of the session's conversation, opening or resuming it where needed. */
  async #conversation(
    { prompt, session }: PromptStart,
    { life, say, signal }: { life: Life; say: Say; signal: AbortSignal },
  ): Promise<string> {
    const [title, cwd] = [this.#title, this.#directory]
    if (cwd === undefined)
      throw new BerthError("agent.unavailable", `${title} was told no directory yet`)
    const late = AbortSignal.timeout(CONVERSATION_LIMIT_MS)
    try {
      const { mode, meta } = this.#options
      const finding = this.#sessions.find(session, { life, cwd, mode, meta })
      const { id, isForgotten } = await abortable(finding, AbortSignal.any([signal, late]))
      const message = `${title} does not remember this conversation, and begins it anew`
      if (isForgotten) await say({ type: "warning", prompt, message })
      return id
    } catch (thrown) {
      if (!late.aborted) throw failureOf(this.#options, thrown, life.connection.over)
      await this.#process.replace(life, prompt)
      const ms = CONVERSATION_LIMIT_MS
      throw new BerthError("agent.failed", `${title} opened no conversation in ${ms} ms`)
    }
  }

  #turn(session: string): Turn | undefined {
    return this.#turns.get(session)?.turn
  }
}
