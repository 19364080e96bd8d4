import { z } from "zod"
import { BootEvent } from "./boot.ts"
import { PromptId, SandboxId } from "./ids.ts"
import { listOf } from "./list.ts"
import { PromptState } from "./session.ts"
import {
  MAX_CHOICES,
  MAX_NAME_CHARS,
  MAX_QUESTION_CHARS,
  MAX_TODO_CHARS,
  MAX_TODOS,
  MAX_TOOL_TEXT_CHARS,
} from "./session-limits.ts"

/** The place of an event in its log: 1, 2, 3, … without a gap. */
export const Sequence = z.int().min(1)
export type Sequence = z.infer<typeof Sequence>

const event = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), ...shape })

const Name = z.string().max(MAX_NAME_CHARS)
const ToolText = z.string().max(MAX_TOOL_TEXT_CHARS)
const Question = z.string().max(MAX_QUESTION_CHARS)

/** An item of an agent's plan. */
export const Todo = z.strictObject({
  text: z.string().max(MAX_TODO_CHARS),
  state: z.enum(["pending", "active", "done", "cancelled"]),
})
export type Todo = z.infer<typeof Todo>

/** The content of a session's event, in one vocabulary for every agent. */
export const EventBody = z.discriminatedUnion("type", [
  /** More may be told of a prompt after its end, where its sandbox did not answer when it was stopped. */
  event("prompt.state", { prompt: PromptId, state: PromptState, reason: z.string().optional() }),
  /** A prompt does not run yet, or its sandbox is not reached: sent when the reason changes. `waitsFor` has it, too. */
  event("prompt.waiting", { prompt: PromptId, code: z.string(), message: z.string() }),
  /** More of a text: the text before is not repeated. */
  event("message.delta", { prompt: PromptId, message: z.string(), text: z.string() }),
  event("message.completed", { prompt: PromptId, message: z.string() }),
  event("tool.started", {
    prompt: PromptId,
    call: z.string(),
    tool: z.string(),
    /** The beginning of the tool's input, as text. */
    input: ToolText.optional(),
  }),
  event("tool.completed", {
    prompt: PromptId,
    call: z.string(),
    failed: z.boolean(),
    output: ToolText.optional(),
  }),
  event("file.changed", { prompt: PromptId, path: z.string().max(4096) }),
  event("todo.updated", { prompt: PromptId, todos: listOf(Todo, { max: MAX_TODOS }) }),
  /** A question to a person: the agent waits until it is answered. */
  event("permission.asked", { prompt: PromptId, ask: Name, about: Question }),
  event("permission.answered", { prompt: PromptId, ask: Name, allowed: z.boolean() }),
  event("question.asked", {
    prompt: PromptId,
    ask: Name,
    question: Question,
    choices: listOf(Question, { max: MAX_CHOICES }),
  }),
  /** null: the question was declined. */
  event("question.answered", { prompt: PromptId, ask: Name, answer: Question.nullable() }),
  /** The cost of the prompt so far. */
  event("usage", {
    prompt: PromptId,
    inputTokens: z.int().min(0),
    outputTokens: z.int().min(0),
    costUsd: z.number().min(0).optional(),
  }),
  BootEvent,
  event("sandbox.phase", { sandbox: SandboxId, phase: z.string(), reason: z.string() }),
  event("warning", { prompt: PromptId.optional(), message: z.string() }),
  event("error", {
    prompt: PromptId.optional(),
    code: z.string(),
    message: z.string(),
    hint: z.string(),
  }),
  /**
   * Output was left out here, as it was more than the server keeps. Sent again as more is left out, and before the
   * prompt's end: the last one counts.
   */
  event("output.cut", {
    prompt: PromptId.optional(),
    missingBytes: z.int().min(0),
    missingEvents: z.int().min(0),
    /** Files on the server's machine that have the latest of it, one event a line; null: it is not kept. */
    files: z.string().nullable(),
  }),
  /** The events that were here are not known any more. */
  event("gap", { reason: z.string() }),
])
export type EventBody = z.infer<typeof EventBody>

export const Event = z.strictObject({
  sequence: Sequence,
  at: z.iso.datetime(),
  body: EventBody,
})
export type Event = z.infer<typeof Event>

/** The events that only the server may send: a sandbox has no say about what the server has lost or decided. */
const SERVER_ONLY: readonly EventBody["type"][] = [
  "gap",
  "prompt.waiting",
  "sandbox.phase",
  "output.cut",
]

/** The content of an event that a sandbox may send. */
export const SandboxEventBody = EventBody.refine(
  ({ type }) => !SERVER_ONLY.includes(type),
  "is told by the server alone",
)

export const SandboxEvent = Event.extend({ body: SandboxEventBody })
