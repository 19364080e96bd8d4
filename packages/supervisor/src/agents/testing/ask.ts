import type { PromptResult } from "@berth/protocol/bridge"
import type { EventBody } from "@berth/protocol/event"
import { newId, type SessionId } from "@berth/protocol/ids"
import type { Agent } from "../agent.ts"

export const never: AbortSignal = new AbortController().signal
export const ignore = () => {}

export interface Told {
  readonly result: PromptResult
  readonly events: readonly EventBody[]
  /** The types of the events, in order. */
  readonly types: readonly string[]
  /** The text that the agent said to the user. */
  readonly text: string
}

/** Runs one prompt, and returns its result and events. */
export const ask = async (
  agent: Agent,
  text: string,
  {
    session = newId.session(),
    signal = never,
    onEvent = ignore,
    attachments = [],
  }: {
    session?: SessionId
    signal?: AbortSignal
    onEvent?: (body: EventBody) => unknown
    attachments?: string[]
  } = {},
): Promise<Told> => {
  const events: EventBody[] = []
  const say = async (body: EventBody) => {
    events.push(body)
    await onEvent(body)
  }
  const start = { prompt: newId.prompt(), session, text, attachments }
  const result = await agent.prompt(start, say, signal)
  const said = events.flatMap((body) => (body.type === "message.delta" ? [body.text] : []))
  return { result, events, types: events.map(({ type }) => type), text: said.join("") }
}
