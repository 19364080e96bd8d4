import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { AskAnswer, Prompt, Session } from "@berth/protocol/session"
import type { CreatePrompt, CreateSession, StopPrompts, Transcript } from "@berth/protocol/sessions"
import type { StoredEvent } from "../events/log.ts"

/** The sessions of an installation: what was accepted is neither lost nor run twice, whatever ends in between. */
export interface Sessions {
  create(session: CreateSession): Promise<Session>
  list(): Promise<Session[]>
  get(session: SessionId): Promise<Session>
  /** Takes no more prompts; what waits is stopped. Twice is as good as once. */
  close(session: SessionId): Promise<Session>
  /** On disk when it resolves. */
  prompt(session: SessionId, prompt: CreatePrompt): Promise<Prompt>
  prompts(session: SessionId): Promise<Prompt[]>
  /** Those that were asked to stop. */
  stop(session: SessionId, which: StopPrompts): Promise<PromptId[]>
  /** To what an agent asked. */
  answer(session: SessionId, answer: AskAnswer): Promise<void>
  transcript(session: SessionId): Promise<Transcript>
  /**
   * What happened after that number, then what happens, in order, without a gap or a repeat, until the signal
   * fires. Whoever reads slowly holds up nobody. Fails at once where there is no such session.
   */
  events(
    session: SessionId,
    after: number,
    signal: AbortSignal,
  ): Promise<AsyncIterable<readonly StoredEvent[]>>
}
