import type { PromptId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import type { Permissions } from "@berth/protocol/workspace"
import type { Say } from "../agent.ts"
import type { AgentAsk, AgentAskAnswer, Question } from "./ask-events.ts"
import type { Client } from "./client.ts"

/** The answer to a question when no person is to be asked: the agent decides by itself. */
const NOBODY = "Nobody is there to answer: decide for yourself, and go on."
const DENIED = "This workspace does not allow it: go on without it."

/** Limits of the asks that wait for an answer, and of the questions in one ask. Asks beyond them are declined. */
export const MAX_OPEN_ASKS = 128
export const MAX_QUESTIONS = 32

export interface AsksParts {
  readonly prompt: PromptId
  readonly client: Client
  /** The query parameter that names the directory. */
  readonly where: string
  readonly permissions: Permissions
  readonly say: Say
}

interface Open {
  readonly id: string
  readonly kind: AgentAsk["kind"]
  /** The ids of the questions. Their texts are not kept. */
  readonly questions: readonly string[]
  /** A person's answers, by the position of the question. */
  readonly answers: Map<number, string>
  /** Whether the answer was sent to OpenCode; a person's answer comes too late then. */
  isSettled: boolean
  /** Whether the questions were answered without asking a person. */
  isDeclined: boolean
}

/**
 * Answers OpenCode's asks during one prompt. With `ask`, they wait for a person. Otherwise they are answered at once,
 * since an agent that waits for nobody waits forever: the sandbox bounds the agent, so its permission requests are
 * allowed unless the workspace denies them.
 */
export class Asks {
  readonly #parts: AsksParts
  readonly #open = new Map<string, Open>()

  constructor(parts: AsksParts) {
    this.#parts = parts
  }

  async ask(asked: AgentAsk): Promise<void> {
    const { prompt, permissions, say } = this.#parts
    const questions = questionsOf(asked).map(({ ask }) => ask)
    if (this.#open.size >= MAX_OPEN_ASKS || questions.length > MAX_QUESTIONS)
      return void (await this.#decline(asked))
    const { id, kind } = asked
    const open: Open = {
      id,
      kind,
      questions,
      answers: new Map(),
      isSettled: false,
      isDeclined: false,
    }
    this.#open.set(id, open)
    if (asked.kind === "permission")
      await say({ type: "permission.asked", prompt, ask: asked.id, about: asked.about })
    else
      for (const { ask, question, choices } of asked.questions)
        await say({ type: "question.asked", prompt, ask, question, choices: [...choices] })
    if (permissions === "ask") return
    open.isSettled = true
    if (asked.kind === "permission") await this.#permit(asked.id, permissions === "allow")
    else {
      open.isDeclined = true
      await this.#reply(
        asked.id,
        asked.questions.map(() => NOBODY),
      )
    }
  }

  /** Called when OpenCode reports an ask as answered, whoever answered it. */
  async settled({ id, allowed, answers }: AgentAskAnswer): Promise<void> {
    const { prompt, say } = this.#parts
    const open = this.#open.get(id)
    if (open === undefined) return
    this.#open.delete(id)
    if (open.kind === "permission")
      return say({ type: "permission.answered", prompt, ask: id, allowed })
    for (const [place, ask] of open.questions.entries()) {
      const answer = open.isDeclined ? null : (answers?.[place] ?? null)
      await say({ type: "question.answered", prompt, ask, answer })
    }
  }

  /** Passes on a person's answer. Returns false if nothing waits for it. */
  answer(answer: AskAnswer): boolean {
    if (answer.kind === "permission") {
      const open = this.#open.get(answer.ask)
      if (open === undefined || open.isSettled || open.kind !== "permission") return false
      this.#settle(open, () => this.#permit(answer.ask, answer.allow))
      return true
    }
    for (const open of this.#open.values()) {
      const place = open.questions.indexOf(answer.ask)
      if (place === -1 || open.isSettled || open.answers.has(place)) continue
      this.#take(open, place, answer.answer)
      return true
    }
    return false
  }

  /**
   * Takes the answer to one question. OpenCode wants the answers of an ask together; declining one declines them all.
   */
  #take(open: Open, place: number, answer: string | null): void {
    const { id } = open
    const places = [...open.questions.keys()]
    if (answer !== null) open.answers.set(place, answer)
    const answers = places.flatMap((each) => open.answers.get(each) ?? [])
    if (answer === null) this.#settle(open, () => this.#post(`/question/${id}/reject`))
    else if (answers.length === places.length) this.#settle(open, () => this.#reply(id, answers))
  }

  /** Sends an answer to OpenCode. If that fails, the person may answer again. */
  #settle(open: Open, settle: () => Promise<unknown>): void {
    open.isSettled = true
    settle().catch(() => {
      open.isSettled = false
      open.answers.clear()
    })
  }

  #decline({ id, kind }: AgentAsk): Promise<unknown> {
    return kind === "permission" ? this.#permit(id, false) : this.#post(`/question/${id}/reject`)
  }

  #permit(id: string, allow: boolean): Promise<unknown> {
    const body = allow ? { reply: "once" } : { reply: "reject", message: DENIED }
    return this.#post(`/permission/${id}/reply`, body)
  }

  #reply(id: string, answers: readonly string[]): Promise<unknown> {
    return this.#post(`/question/${id}/reply`, { answers: answers.map((answer) => [answer]) })
  }

  #post(path: string, body: object = {}): Promise<unknown> {
    const { client, where } = this.#parts
    return client.post(`${path}${where}`, { body })
  }
}

const questionsOf = (asked: AgentAsk): readonly Question[] =>
  asked.kind === "question" ? asked.questions : []
