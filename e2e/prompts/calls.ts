import { Event, type EventBody } from "@berth/protocol/event"
import type { Prompt } from "@berth/protocol/session"
import { expect } from "vitest"

export interface SessionCalls {
  get<Answer>(path: string): Promise<Answer>
  post<Answer>(path: string, body: unknown, status: number): Promise<Answer>
  prompt(session: string, text: string): Promise<Prompt>
  /** Follows the events after that number, up to the first one that fits. */
  until(session: string, after: number, holds: (body: EventBody) => boolean): Promise<Event[]>
}

/** Opens the API as it is on the wire. */
export const openCalls = (
  access: () => { readonly url: string; readonly token: string },
): SessionCalls => {
  const call = async (path: string, init: RequestInit = {}) => {
    const { url, token } = access()
    const headers = { authorization: `Bearer ${token}`, ...init.headers }
    return await fetch(`${url}${path}`, { ...init, headers })
  }
  const post = async <Answer>(path: string, body: unknown, status: number): Promise<Answer> => {
    const headers = { "content-type": "application/json" }
    const response = await call(path, { method: "POST", body: JSON.stringify(body), headers })
    const answer = await response.json()
    expect({ status: response.status, answer }).toMatchObject({ status })
    return answer as Answer
  }
  return {
    get: async <Answer>(path: string) => (await (await call(path)).json()) as Answer,
    post,
    prompt: (session, text) => post<Prompt>(`/v1/sessions/${session}/prompts`, { text }, 202),
    until: async (session, after, holds) => {
      const response = await call(`/v1/sessions/${session}/events`, {
        headers: { "last-event-id": String(after) },
      })
      expect(response.status).toBe(200)
      const events: Event[] = []
      for await (const event of eventsIn(response)) {
        events.push(event)
        if (holds(event.body)) return events
      }
      throw new Error(`the stream ended after ${JSON.stringify(events.at(-1))}`)
    },
  }
}

async function* eventsIn(response: Response): AsyncGenerator<Event> {
  let rest = ""
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const blocks = (rest + Buffer.from(chunk).toString("utf8")).split("\n\n")
    rest = blocks.pop() ?? ""
    for (const block of blocks) {
      const data = block.split("\n").find((line) => line.startsWith("data:"))
      if (data !== undefined) yield Event.parse(JSON.parse(data.slice("data:".length)))
    }
  }
}
