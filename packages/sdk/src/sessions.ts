import { BerthError } from "@berth/protocol/errors"
import { SessionId } from "@berth/protocol/ids"
import { Session as SessionView } from "@berth/protocol/session"
import { type CreateSessionInput, SessionList } from "@berth/protocol/sessions"
import { type CallOptions, type Connection, call } from "./call.ts"
import { CREATE_DEADLINE_MS } from "./create.ts"
import { type PromptResult, type RunOptions, runPrompt } from "./run-prompt.ts"
import { type SessionCalls, sessionCalls } from "./session-calls.ts"

/** A conversation with an agent. Whether it exists is known only with the first call. */
export interface Session extends SessionCalls {
  /** Sends a prompt and resolves with its result. Aborting the signal stops the prompt. */
  run(text: string, options?: RunOptions): Promise<PromptResult>
}

export interface Sessions {
  /** Creates a session in a workspace that is named, or described. Its sandbox boots with the first prompt. */
  create(spec: CreateSessionInput, options?: CallOptions): Promise<Session>
  /** The sessions, latest first. */
  list(options?: CallOptions): Promise<SessionView[]>
  /** Reads a session that exists. */
  get(id: string, options?: CallOptions): Promise<SessionView>
  /** A session by its id, without a call. */
  at(id: string): Session
}

export const sessionsOf = (connection: Connection): Sessions => {
  const at = (id: string): Session => sessionAt(connection, idOf(id))
  return {
    at,
    create: async (spec, options) => {
      const ask = { method: "POST", path: "/v1/sessions", json: spec } as const
      const deadline = { deadlineMs: CREATE_DEADLINE_MS, ...options }
      return at((await call(connection, ask, SessionView, deadline)).id)
    },
    list: async (options) =>
      (await call(connection, { path: "/v1/sessions" }, SessionList, options)).sessions,
    get: async (id, options) => await at(id).get(options),
  }
}

const sessionAt = (connection: Connection, id: SessionId): Session => {
  const calls = sessionCalls(connection, id)
  return { ...calls, run: (text, options = {}) => runPrompt(calls, text, options) }
}

const idOf = (text: string): SessionId => {
  const parsed = SessionId.safeParse(text)
  if (parsed.success) return parsed.data
  throw new BerthError(
    "input.invalid",
    `${text} is not the id of a session: ses- and 20 letters and digits`,
  )
}
