import { z } from "zod"
import { BootEvent } from "./boot.ts"
import { PromptId } from "./ids.ts"
import { PromptState } from "./session.ts"

/** The place of an event in its log: 1, 2, 3, … without a gap. */
export const Sequence = z.int().min(1)
export type Sequence = z.infer<typeof Sequence>

const event = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), ...shape })

/** What happens in a session, in one vocabulary for every agent. */
export const EventBody = z.discriminatedUnion("type", [
  event("prompt.state", { prompt: PromptId, state: PromptState, reason: z.string().optional() }),
  event("message.delta", { prompt: PromptId, message: z.string(), text: z.string() }),
  event("message.completed", { prompt: PromptId, message: z.string() }),
  event("tool.started", { prompt: PromptId, call: z.string(), tool: z.string() }),
  event("tool.completed", { prompt: PromptId, call: z.string(), failed: z.boolean() }),
  BootEvent,
  event("sandbox.phase", { phase: z.string(), reason: z.string() }),
  event("warning", { message: z.string() }),
  event("error", { code: z.string(), message: z.string(), hint: z.string() }),
])
export type EventBody = z.infer<typeof EventBody>

export const Event = z.strictObject({
  sequence: Sequence,
  at: z.iso.datetime(),
  body: EventBody,
})
export type Event = z.infer<typeof Event>
