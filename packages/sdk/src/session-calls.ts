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
  /** Sent again with the same key, it is the same prompt: after a break, it can be sent again. */
  readonly key?: string | undefined
  /** The longest that it may run. */
  readonly deadlineMs?: number | undefined
  /** Files that come with it. */
  readonly attachments?: readonly { readonly name: string; readonly content: string | Uint8Array }[]
  readonly signal?: AbortSignal | undefined
}

export interface StopOptions extends CallOptions {
  /** The prompt to stop; without it, all that run or wait. */
  readonly prompt?: PromptId | undefined
}

export interface RemoveSessionOptions extends CallOptions {
  /** Though a prompt runs or waits. */
  readonly force?: boolean | undefined
}

/** The calls of a session, each of which is one request. */
export interface SessionCalls {
  readonly id: SessionId
  get(options?: CallOptions): Promise<SessionView>
  /** Resolves when it is accepted: from then on it is neither lost nor run twice. Its events tell of its end. */
  prompt(text: string, options?: PromptOptions): Promise<Prompt>
  /** Oldest first. */
  prompts(options?: CallOptions): Promise<Prompt[]>
  /** Returns the prompts that were asked to stop; their events tell when they have. */
  stop(options?: StopOptions): Promise<PromptId[]>
  /** To what the agent asked. */
  answer(answer: AskAnswer, options?: CallOptions): Promise<void>
  /** The whole conversation, put together. */
  messages(options?: CallOptions): Promise<Transcript>
  /**
   * The events that were, then those that come, each once and in order, whatever breaks in between. Fails with what no
   * further attempt would mend: a session that is not there, a token that is refused.
   */
  events(options?: EventsOptions): AsyncIterable<Event>
  /** It takes no more prompts, and can still be read. Twice is as good as once. */
  close(options?: CallOptions): Promise<void>
  /** With all that was said in it. Refused while a prompt of it runs or waits, unless forced: then it is stopped first. */
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
