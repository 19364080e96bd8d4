import type { Event, EventBody } from "@berth/protocol/event"

type Body<Type extends EventBody["type"]> = Extract<EventBody, { type: Type }>

export const ofType = <Type extends EventBody["type"]>(events: readonly Event[], type: Type) =>
  events.map(({ body }) => body).filter((body): body is Body<Type> => body.type === type)

export const statesOf = (events: readonly Event[]) =>
  ofType(events, "prompt.state").map(({ state }) => state)

export const textOf = (events: readonly Event[]) =>
  ofType(events, "message.delta")
    .map(({ text }) => text)
    .join("")
