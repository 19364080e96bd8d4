import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import type { Permissions } from "@berth/protocol/workspace"
import type { Agent, AgentFile, AgentReport, Say } from "../agent.ts"
import { failingOf } from "../failure.ts"
import { isHeld } from "../held.ts"
import { orInterrupted } from "../or-interrupted.ts"
import type { AgentParts } from "../parts.ts"
import { objectIn, textIn } from "../read.ts"
import { Strays } from "../strays.ts"
import { Asks } from "./asks.ts"
import type { Client } from "./client.ts"
import { linkPlugin } from "./link-plugin.ts"
import { type Model, parseModel } from "./model.ts"
import { HELD_ENVIRONMENT, HELD_RULES, requireHeld } from "./permissions.ts"
import { runPrompt } from "./run-prompt.ts"
import { type Life, Server } from "./server.ts"
import { Sessions } from "./sessions.ts"
import { requireChosen, requireModel } from "./usable-model.ts"

/** Time limit of one try. A healthy OpenCode answers within a second, on a busy machine too. */
const ATTACH_TRY_MS = 10_000
const ATTACH_TRIES = 3

/** Files that keep OpenCode from installing anything into its configuration directory. */
const CONFIG_FILES: readonly AgentFile[] = [
  "node_modules",
  "package.json",
  "package-lock.json",
].map((name) => ({ from: `agents/opencode/config/${name}`, to: `.config/opencode/${name}` }))

/** With these, plugins that a configuration names are installed over the network, unlike packages of a repo's tools. */
const PACKAGES_FILES: readonly AgentFile[] = [
  { from: "agents/opencode/packages/npmrc", to: ".cache/opencode/packages/.npmrc" },
  { from: "agents/opencode/packages/package.json", to: ".cache/opencode/packages/package.json" },
]

export interface OpenCodeOptions {
  /** `provider/model`. Default: the model that OpenCode's own configuration names. */
  readonly model?: string | undefined
  /** The answer to OpenCode's permission requests. */
  readonly permissions: Permissions
}

/** OpenCode, driven through its own server. */
export const opencodeAgent = (parts: AgentParts, options: OpenCodeOptions): Agent =>
  new OpenCode(parts, options)

class OpenCode implements Agent {
  readonly name = "opencode"
  readonly startsEarly = true
  readonly files = [...CONFIG_FILES, ...PACKAGES_FILES]
  readonly #parts: AgentParts
  readonly #model: Model | undefined
  readonly #server: Server
  readonly #permissions: Permissions
  readonly #strays: Strays
  readonly #sessions: Sessions
  /** The asks of running prompts. */
  readonly #asks = new Map<PromptId, Asks>()
  #directory: string | undefined
  #attachedLife = 0
  /** The process (`life`) whose agents were checked to be held. */
  #heldLife = 0

  constructor(parts: AgentParts, { model, permissions }: OpenCodeOptions) {
    this.#parts = parts
    this.#model = model === undefined ? undefined : parseModel(model)
    this.#permissions = permissions
    this.#server = new Server(parts, isHeld(permissions) ? HELD_ENVIRONMENT : {})
    this.#sessions = new Sessions(isHeld(permissions) ? HELD_RULES : [])
    this.#strays = new Strays(parts.clock)
  }

  async start(signal: AbortSignal, tell: (progress: string) => void): Promise<AgentReport> {
    const beganAtMs = this.#parts.clock.nowMs()
    tell("its server is starting")
    const { client, port } = await this.#server.life(signal)
    const version = textIn(objectIn(await client.get("/global/health", { signal })).version)
    const readyMs = Math.round(this.#parts.clock.nowMs() - beganAtMs)
    return {
      did: `OpenCode ${version} answers on port ${port} after ${readyMs} ms`,
      facts: { version: version ?? "unknown", port, pid: this.#server.pid ?? 0, readyMs },
    }
  }

  async attach(directory: string, signal: AbortSignal): Promise<AgentReport> {
    const beganAtMs = this.#parts.clock.nowMs()
    this.#directory = directory
    this.#attachedLife = 0
    await this.#attached(signal)
    const tookMs = Math.round(this.#parts.clock.nowMs() - beganAtMs)
    return { did: `OpenCode works in ${directory}`, facts: { directory, tookMs } }
  }

  trouble(): string | undefined {
    return this.#directory === undefined ? "it has no directory yet" : this.#server.trouble()
  }

  async prompt(start: PromptStart, say: Say, signal: AbortSignal): Promise<PromptResult> {
    const since = this.#strays.begin()
    try {
      const onFailure = () => this.#sessions.forget(start.session)
      const told = { prompt: start.prompt, say, signal, onFailure }
      return await failingOf(() => this.#prompt(start, say, signal), told)
    } finally {
      this.#asks.delete(start.prompt)
      if (signal.aborted) await this.#strays.end(this.#server.grown, since)
      this.#strays.over(since)
    }
  }

  answer(prompt: PromptId, answer: AskAnswer): boolean {
    return this.#asks.get(prompt)?.answer(answer) ?? false
  }

  lastOutput(): string {
    return this.#server.lastOutput()
  }

  async #prompt(start: PromptStart, say: Say, signal: AbortSignal): Promise<PromptResult> {
    const life = await this.#attached(signal)
    return await orInterrupted(() => this.#take(start, { life, say, signal }), {
      prompt: start.prompt,
      life,
      signal,
    })
  }

  async #take(
    start: PromptStart,
    { life, say, signal }: { life: Life; say: Say; signal: AbortSignal },
  ): Promise<PromptResult> {
    const { client } = life
    const where = this.#where()
    const isPromptHeld = isHeld(this.#permissions)
    if (isPromptHeld && this.#heldLife !== life.number) {
      requireHeld(await client.get(`/agent${where}`, { signal }))
      this.#heldLife = life.number
    }
    const asking = { client, where, signal }
    await (this.#model === undefined ? requireChosen(asking) : requireModel(this.#model, asking))
    const session = await this.#sessions.find(start.session, { client, where, signal })
    const { prompt } = start
    const asks = new Asks({ prompt, client, where, say, permissions: this.#permissions })
    this.#asks.set(prompt, asks)
    return await runPrompt(start, {
      client,
      where,
      session,
      say,
      signal,
      model: this.#model,
      clock: this.#parts.clock,
      asks,
      directory: this.#directory ?? "/",
      isHeld: isPromptHeld,
      endProcess: () => this.#server.replace(life, prompt),
      replaceCrashed: () => this.#server.replace(life),
    })
  }

  /** Returns the current process of the server. Names the directory to each new process before its first prompt. */
  async #attached(signal: AbortSignal): Promise<Life> {
    const life = await this.#server.life(signal)
    if (life.number === this.#attachedLife) return life
    const where = this.#where()
    await linkPlugin(this.#directory ?? "/", this.#parts, signal)
    await nameDirectory(life.client, where, signal)
    this.#attachedLife = life.number
    return life
  }

  #where(): string {
    if (this.#directory === undefined)
      throw new BerthError("agent.unavailable", "OpenCode was told no directory yet")
    return `?directory=${encodeURIComponent(this.#directory)}`
  }
}

/** Makes OpenCode look at the directory. The first request that names it is answered when OpenCode has done so. */
const nameDirectory = async (client: Client, where: string, signal: AbortSignal): Promise<void> => {
  for (let left = ATTACH_TRIES; ; left--) {
    try {
      await client.get(`/path${where}`, { signal, limitMs: ATTACH_TRY_MS })
      return
    } catch (thrown) {
      const isLate = thrown instanceof BerthError && thrown.code === "deadline.exceeded"
      if (!isLate || left === 1) throw thrown
    }
  }
}
