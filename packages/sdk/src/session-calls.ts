import type { Event } from "@berth/protocol/event"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import { type AskAnswer, Prompt, Session as SessionView } from "@berth/protocol/session"
import {
  type CreatePromptInput,
  PromptList,
  StoppedPrompts,
  Transcript,
} from "@berth/protocol/sessions"
import { toBase64 } from "./base64.ts"
import { type CallOptions, type Connection, call, command } from "./call.ts"
import { type EventsOptions, readEvents } from "./session-events.ts"

export interface PromptOptions {
  /** The same key gives the same prompt, so that it can be sent again after a break. */
  readonly key?: string | undefined
  /** The longest that the prompt may run. */
  readonly deadlineMs?: number | undefined
  /** Files that come with the prompt. */
  readonly attachments?: readonly { readonly name: string; readonly content: string | Uint8Array }[]
  readonly signal?: AbortSignal | undefined
}

export interface StopOptions extends CallOptions {
  /** The prompt to stop; without it, all that run or wait. */
  readonly prompt?: PromptId | undefined
}

export interface RemoveSessionOptions extends CallOptions {
  /** Removes the session even if a prompt runs or waits. */
  readonly force?: boolean | undefined
}

/** The calls of a session, each of which is one request. */
export interface SessionCalls {
  readonly id: SessionId
  get(options?: CallOptions): Promise<SessionView>
  /**
   * Resolves when the prompt is accepted: from then on it is neither lost nor run twice. Its events tell of its end.
   */
  prompt(text: string, options?: PromptOptions): Promise<Prompt>
  /** The prompts, oldest first. */
  prompts(options?: CallOptions): Promise<Prompt[]>
  /** Returns the prompts that were asked to stop; their events tell when they have. */
  stop(options?: StopOptions): Promise<PromptId[]>
  /** Answers a question of the agent. */
  answer(answer: AskAnswer, options?: CallOptions): Promise<void>
  /** The whole conversation, put together. */
  messages(options?: CallOptions): Promise<Transcript>
  /**
   * The past events, then new ones, each once and in order, whatever breaks in between. Fails only where another
   * attempt would fail as well: the session does not exist, the token is refused.
   */
  events(options?: EventsOptions): AsyncIterable<Event>
  /** Closes the session to new prompts; it can still be read. May be called twice. */
  close(options?: CallOptions): Promise<void>
  /**
   * Removes the session with its prompts and events. Refused while a prompt of it runs or waits, unless forced: then it
   * is stopped first.
   */
  remove(options?: RemoveSessionOptions): Promise<void>
}

export const sessionCalls = (connection: Connection, id: SessionId): SessionCalls => {
  const path = `/v1/sessions/${id}`
  return {
    id,
    get: (options) => call(connection, { path }, SessionView, options),
    prompt: (text, { key, deadlineMs, attachments = [], signal } = {}) => {
      const json: CreatePromptInput = {
        text,
        key,
        deadlineMs,
        attachments: attachments.map(({ name, content }) => ({ name, content: encoded(content) })),
      }
      const ask = { method: "POST", path: `${path}/prompts`, json } as const
      return call(connection, ask, Prompt, { signal })
    },
    prompts: async (options) =>
      (await call(connection, { path: `${path}/prompts` }, PromptList, options)).prompts,
    stop: async ({ prompt, ...options } = {}) => {
      const ask = { method: "POST", path: `${path}/stop`, json: { prompt } } as const
      return (await call(connection, ask, StoppedPrompts, options)).prompts
    },
    answer: (answer, options) =>
      command(connection, { method: "POST", path: `${path}/answers`, json: answer }, options),
    messages: (options) => call(connection, { path: `${path}/messages` }, Transcript, options),
    events: (options) => readEvents(connection, `${path}/events`, options),
    close: (options) => command(connection, { method: "POST", path: `${path}/close` }, options),
    remove: ({ force = false, ...options } = {}) =>
      command(connection, { method: "DELETE", path: `${path}?force=${force}` }, options),
  }
}

const encoded = (content: string | Uint8Array): string =>
  toBase64(typeof content === "string" ? new TextEncoder().encode(content) : content)
