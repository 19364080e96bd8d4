import { z } from "zod"
import { MAX_PROMPT_CHARS } from "./bridge-limits.ts"
import { PromptId, SessionId, Slug } from "./ids.ts"
import { AgentSpec } from "./workspace.ts"

export const SessionState = z.enum(["open", "closed"])
export type SessionState = z.infer<typeof SessionState>

/** A conversation with an agent in a workspace: prompts in, events out. */
export const Session = z.strictObject({
  id: SessionId,
  workspace: Slug,
  agent: AgentSpec,
  state: SessionState,
  createdAt: z.iso.datetime(),
})
export type Session = z.infer<typeof Session>

/** queued → running → succeeded | failed | stopped | interrupted */
export const PromptState = z.enum([
  "queued",
  "running",
  "succeeded",
  "failed",
  "stopped",
  "interrupted",
])
export type PromptState = z.infer<typeof PromptState>

export const Prompt = z.strictObject({
  id: PromptId,
  session: SessionId,
  text: z.string().min(1).max(MAX_PROMPT_CHARS),
  state: PromptState,
  createdAt: z.iso.datetime(),
})
export type Prompt = z.infer<typeof Prompt>
