import type {
  PermissionOption,
  RequestPermissionRequest,
  RequestPermissionResponse,
  Usage,
} from "@agentclientprotocol/sdk/unstable"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import { MAX_QUESTION_CHARS } from "@berth/protocol/session-limits"
import type { Permissions } from "@berth/protocol/workspace"
import type { Say } from "../agent.ts"
import { clip, toolText } from "../clip.ts"
import { together } from "../together.ts"
import { Updates } from "./updates.ts"

type Permitted = "allow" | "reject" | "cancelled"

export interface TurnParts {
  readonly prompt: PromptId
  readonly permissions: Permissions
  readonly say: Say
  readonly terminalText: (id: string) => string | undefined
}

/** Handles the updates and permission requests of an agent during one prompt. */
export class Turn {
  readonly #parts: TurnParts
  readonly #updates: Updates
  readonly #waiting = new Map<string, (permitted: Permitted) => void>()
  #asks = 0
  #isOver = false

  constructor(parts: TurnParts) {
    this.#parts = parts
    this.#updates = new Updates(parts.prompt, parts.terminalText)
  }

  /** Why the prompt failed, from agents that report it outside the protocol. */
  get failure(): string | undefined {
    return this.#updates.failure
  }

  hear(update: unknown): Promise<void> {
    return this.#tell(this.#updates.hear(update))
  }

  wrote(path: string): Promise<void> {
    return this.#tell(this.#updates.wrote(path))
  }

  /** Answers a permission request. With `ask`, waits for a person's answer. */
  async permit({
    toolCall,
    options,
  }: RequestPermissionRequest): Promise<RequestPermissionResponse> {
    const { prompt, permissions, say } = this.#parts
    if (this.#isOver) return CANCELLED
    const ask = `permission-${++this.#asks}`
    const input = toolText(toolCall.rawInput)
    const about = [toolCall.title ?? toolCall.name ?? "a call", ...(input ? [input] : [])].join(
      ": ",
    )
    const permitted =
      permissions === "ask" ? this.#wait(ask) : permissions === "allow" ? "allow" : "reject"
    await this.#tell(this.#updates.begin(toolCall))
    await say({ type: "permission.asked", prompt, ask, about: clip(about, MAX_QUESTION_CHARS) })
    const option = optionFor(await permitted, options)
    const allowed = option?.kind.startsWith("allow") === true
    await say({ type: "permission.answered", prompt, ask, allowed })
    if (option === undefined) return CANCELLED
    return { outcome: { outcome: "selected", optionId: option.optionId } }
  }

  /** Passes on a person's answer. Returns false if no request waits for it. */
  answer(answer: AskAnswer): boolean {
    const resolve = this.#waiting.get(answer.ask)
    if (answer.kind !== "permission" || resolve === undefined) return false
    this.#waiting.delete(answer.ask)
    resolve(answer.allow ? "allow" : "reject")
    return true
  }

  /** Cancels the waiting requests when a prompt is stopped, as the protocol requires: neither allowed nor rejected. */
  cancel(): void {
    this.#isOver = true
    for (const resolve of this.#waiting.values()) resolve("cancelled")
    this.#waiting.clear()
  }

  async spent(usage: Usage | null | undefined): Promise<void> {
    if (!usage) return
    const { inputTokens, outputTokens, thoughtTokens, cachedReadTokens, cachedWriteTokens } = usage
    await this.#parts.say({
      type: "usage",
      prompt: this.#parts.prompt,
      inputTokens: inputTokens + (cachedReadTokens ?? 0) + (cachedWriteTokens ?? 0),
      outputTokens: outputTokens + (thoughtTokens ?? 0),
    })
  }

  async close(): Promise<void> {
    this.cancel()
    await this.#tell(this.#updates.close())
  }

  #wait(ask: string): Promise<Permitted> {
    return new Promise((resolve) => this.#waiting.set(ask, resolve))
  }

  async #tell(bodies: readonly EventBody[]): Promise<void> {
    for (const body of together(bodies)) await this.#parts.say(body)
  }
}

const CANCELLED: RequestPermissionResponse = { outcome: { outcome: "cancelled" } }

/** Prefers the option that holds once: an answer to one request must not decide later ones. */
const optionFor = (
  permitted: Permitted,
  options: readonly PermissionOption[],
): PermissionOption | undefined =>
  options.find(({ kind }) => kind === `${permitted}_once`) ??
  options.find(({ kind }) => kind === `${permitted}_always`)
