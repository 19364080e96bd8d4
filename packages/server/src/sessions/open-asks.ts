import type { EventBody } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import type { OpenAsk } from "@berth/protocol/session"
import { type Kysely, sql } from "kysely"
import type { Database } from "../store/database.ts"

type AskEvent = Extract<EventBody, { readonly ask: string }>

interface AskRow {
  readonly session: SessionId
  readonly at_ms: number
  readonly json: string
}

/**
 * The asks that wait for a person, by session: those of running prompts that no event answers. The condition on `type`
 * is exactly that of the index `events_asks`: SQLite uses the index only then.
 */
export const openAsks = async (
  db: Kysely<Database>,
  session?: SessionId,
): Promise<Map<SessionId, OpenAsk[]>> => {
  const { rows } = await sql<AskRow>`
    SELECT events.session, events.at_ms, events.json
    FROM events
    WHERE events.type IN ('permission.asked', 'permission.answered', 'question.asked', 'question.answered')
      AND events.session IN (
        SELECT prompts.session FROM prompts
        WHERE prompts.state = 'running' AND prompts.session = coalesce(${session ?? null}, prompts.session)
      )
      AND EXISTS (
        SELECT 1 FROM prompts WHERE prompts.id = events.json ->> '$.body.prompt' AND prompts.state = 'running'
      )
    ORDER BY events.session, events.sequence`.execute(db)
  const open = new Map<SessionId, Map<string, OpenAsk>>()
  for (const { session: id, at_ms, json } of rows) {
    const { body } = JSON.parse(json) as { body: AskEvent }
    const asks = open.get(id) ?? new Map<string, OpenAsk>()
    open.set(id, asks)
    const asked = askedBy(body, at_ms)
    if (asked === undefined) asks.delete(body.ask)
    else asks.set(body.ask, asked)
  }
  return new Map([...open].map(([id, asks]) => [id, [...asks.values()]]))
}

const askedBy = (body: AskEvent, atMs: number): OpenAsk | undefined => {
  const { ask, prompt } = body
  const since = new Date(atMs).toISOString()
  if (body.type === "permission.asked")
    return { kind: "permission", prompt, ask, since, about: body.about, choices: [] }
  if (body.type === "question.asked")
    return { kind: "question", prompt, ask, since, about: body.question, choices: body.choices }
  return undefined
}
