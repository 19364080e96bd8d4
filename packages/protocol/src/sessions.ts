import { z } from "zod"
import { PromptId, Slug } from "./ids.ts"
import { FileName } from "./paths.ts"
import { OnInterrupt, Prompt, PromptDeadlineMs, PromptText, Session } from "./session.ts"
import { MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS } from "./session-limits.ts"
import { WorkspaceSpec } from "./workspace.ts"

/**
 * The body of `POST /v1/sessions`, which answers with the session (201). A workspace is named, or described, which
 * changes it as `POST /v1/sandboxes` does. Its sandbox boots with the first prompt.
 */
export const CreateSession = z.strictObject({
  workspace: z.union([Slug, WorkspaceSpec]),
  /** Only for a described workspace: removes the workspace of that name first if it is for another repo. */
  replace: z.boolean().default(false),
  onInterrupt: OnInterrupt.default("wait"),
  /** The agent of this session alone, whichever agent the workspace has; every sandbox runs the shell. */
  agent: z.strictObject({ kind: z.literal("shell") }).optional(),
})
export type CreateSession = z.infer<typeof CreateSession>
export type CreateSessionInput = z.input<typeof CreateSession>

/** A file that comes with a prompt, as base64. */
export const Attachment = z.strictObject({
  name: FileName,
  content: z.base64().max(Math.ceil(MAX_ATTACHMENT_BYTES / 3) * 4),
})
export type Attachment = z.infer<typeof Attachment>

/**
 * The body of `POST /v1/sessions/{id}/prompts`, which answers 202 with the prompt. From then on the prompt is neither
 * lost nor run twice.
 */
export const CreatePrompt = z.strictObject({
  text: PromptText,
  /** The same key and content give the same prompt; the key with another content is refused. */
  key: z.string().min(1).max(200).optional(),
  deadlineMs: PromptDeadlineMs.optional(),
  attachments: z
    .array(Attachment)
    .max(MAX_ATTACHMENTS)
    .refine(
      (all) => new Set(all.map(({ name }) => name)).size === all.length,
      "must have different names",
    )
    .refine(
      (all) =>
        all.reduce((sum, { content }) => sum + content.length * 0.75, 0) <= MAX_ATTACHMENT_BYTES,
      `must not be larger than ${MAX_ATTACHMENT_BYTES} bytes together`,
    )
    .default([]),
})
export type CreatePrompt = z.infer<typeof CreatePrompt>
export type CreatePromptInput = z.input<typeof CreatePrompt>

/**
 * The body of `POST /v1/sessions/{id}/stop`: without a prompt, it stops all that run and wait. It answers with those
 * that were asked to stop; their events tell when they have.
 */
export const StopPrompts = z.strictObject({ prompt: PromptId.optional() })
export type StopPrompts = z.infer<typeof StopPrompts>

export const StoppedPrompts = z.object({ prompts: z.array(PromptId) })
export type StoppedPrompts = z.infer<typeof StoppedPrompts>

/** The answer of `GET /v1/sessions`, latest first. */
export const SessionList = z.object({ sessions: z.array(Session) })
export type SessionList = z.infer<typeof SessionList>

/** The answer of `GET /v1/sessions/{id}/prompts`, oldest first. */
export const PromptList = z.object({ prompts: z.array(Prompt) })
export type PromptList = z.infer<typeof PromptList>

const part = <Kind extends string, Shape extends z.ZodRawShape>(kind: Kind, shape: Shape) =>
  z.object({ kind: z.literal(kind), ...shape })

/** A piece of an agent's work: a text, a tool call or a note. */
export const MessagePart = z.discriminatedUnion("kind", [
  /** The text; of a very long one only the beginning, with a note that says so. */
  part("text", { message: z.string(), text: z.string(), isComplete: z.boolean() }),
  part("tool", {
    call: z.string(),
    tool: z.string(),
    input: z.string().optional(),
    output: z.string().optional(),
    state: z.enum(["running", "succeeded", "failed"]),
  }),
  part("note", { level: z.enum(["warning", "error", "gap"]), text: z.string() }),
])
export type MessagePart = z.infer<typeof MessagePart>

/** A prompt with the agent's work on it. */
export const Turn = z.object({ prompt: Prompt, parts: z.array(MessagePart) })
export type Turn = z.infer<typeof Turn>

/** The answer of `GET /v1/sessions/{id}/messages`: the log up to an event, put together. */
export const Transcript = z.object({
  /** The number with which `GET /v1/sessions/{id}/events?after=` goes on. */
  lastEvent: z.int().min(0),
  turns: z.array(Turn),
})
export type Transcript = z.infer<typeof Transcript>
