import { z } from "zod"
import { Event, Sequence } from "./event.ts"
import { PromptId, SandboxId } from "./ids.ts"
import { MAX_PROMPT_CHARS } from "./session.ts"

/** Raised whenever server and supervisor of different versions could misunderstand each other. */
export const PROTOCOL_GENERATION = 1

const message = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), ...shape })

/** Before the first event there is none to have seen. */
const LastSeen = z.union([z.literal(0), Sequence])

/** What the server says to a supervisor. */
export const ServerMessage = z.discriminatedUnion("type", [
  message("hello", { generation: z.int(), sandbox: SandboxId, lastSeen: LastSeen }),
  message("acknowledge", { upTo: Sequence }),
  message("prompt.start", { prompt: PromptId, text: z.string().max(MAX_PROMPT_CHARS) }),
  message("prompt.stop", { prompt: PromptId }),
])
export type ServerMessage = z.infer<typeof ServerMessage>

/** What a supervisor says to the server. */
export const SupervisorMessage = z.discriminatedUnion("type", [
  message("hello", { generation: z.int(), sandbox: SandboxId, last: LastSeen }),
  message("event", { event: Event }),
])
export type SupervisorMessage = z.infer<typeof SupervisorMessage>
