import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { Prompt, PromptWait, Session } from "@berth/protocol/session"
import {
  isPending,
  type OpenPrompt,
  type Rows,
  type SessionWithAsks,
  type StoredPrompt,
} from "./rows.ts"

/** Sessions and prompts as people see them: with the reasons why they wait. */
export class Views {
  readonly #rows: Pick<Rows, "view" | "list" | "prompts" | "next">
  readonly #waitOf: (prompt: PromptId) => PromptWait | null

  constructor(
    rows: Pick<Rows, "view" | "list" | "prompts" | "next">,
    waitOf: (prompt: PromptId) => PromptWait | null,
  ) {
    this.#rows = rows
    this.#waitOf = waitOf
  }

  async get(session: SessionId): Promise<Session> {
    return this.withWait(await this.#rows.view(session))
  }

  async list(): Promise<Session[]> {
    return (await this.#rows.list()).map((session) => this.withWait(session))
  }

  withWait(session: SessionWithAsks): Session {
    const waits = session.pending.map((prompt) => this.#waitOf(prompt))
    return { ...session, waitsFor: waits.find((wait) => wait !== null) ?? null }
  }

  async prompts(session: SessionId): Promise<Prompt[]> {
    const [all, next] = await Promise.all([this.#rows.prompts(session), this.#rows.next(session)])
    return all.map((prompt) => this.prompt(prompt, next))
  }

  /** A prompt of a session of which `next` is the one that runs, or is to run next. */
  prompt(prompt: StoredPrompt, next: OpenPrompt | undefined): Prompt {
    const isBehind = prompt.state === "queued" && next !== undefined && next.id !== prompt.id
    return { ...prompt, waitsFor: isBehind ? behind(prompt, next) : this.#waitOf(prompt.id) }
  }
}

/** The wait of a prompt behind another of its session, since it was accepted. */
const behind = ({ createdAt }: StoredPrompt, next: OpenPrompt): PromptWait => ({
  code: "prompt.earlier",
  message: `${next.id} of the same session ${standingOf(next)}`,
  since: createdAt,
})

const standingOf = ({ state, sandbox }: OpenPrompt): string => {
  if (!isPending(state)) return `was stopped, and ${sandbox} has not confirmed that it has ended`
  return state === "running" ? "runs" : "comes first"
}
