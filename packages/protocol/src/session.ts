import { z } from "zod"
import { MAX_PROMPT_CHARS } from "./bridge-limits.ts"
import { PromptId, SandboxId, SessionId, Slug } from "./ids.ts"
import { FileName } from "./paths.ts"
import { MAX_NAME_CHARS, MAX_PROMPT_MS, MAX_QUESTION_CHARS } from "./session-limits.ts"
import { AgentSpec } from "./workspace.ts"

/** closed: the session takes no more prompts. */
export const SessionState = z.enum(["open", "closed"])
export type SessionState = z.infer<typeof SessionState>

/** The consequence of an interrupted prompt: none, or a prompt that tells the agent to go on. */
export const OnInterrupt = z.enum(["wait", "continue"])
export type OnInterrupt = z.infer<typeof OnInterrupt>

/** An ask of an agent that waits for a person's answer. */
export const OpenAsk = z.object({
  kind: z.enum(["permission", "question"]),
  prompt: PromptId,
  /** The name by which the ask is answered. */
  ask: z.string().max(MAX_NAME_CHARS),
  /** The act that wants permission, or the question. */
  about: z.string().max(MAX_QUESTION_CHARS),
  choices: z.array(z.string().max(MAX_QUESTION_CHARS)),
  since: z.iso.datetime(),
})
export type OpenAsk = z.infer<typeof OpenAsk>

/**
 * Why a prompt does not run yet, or, for a running one, that its sandbox is not reached. After a restart the server
 * finds it anew, with its first attempt.
 */
export const PromptWait = z.object({
  /**
   * `prompt.earlier`: another prompt of the session comes first, or was stopped and may still run. `sandbox.starting`:
   * its sandbox is made or replaced. `sandbox.booting`: the boot has not come to its end. Otherwise the code of the
   * error that the last attempt met.
   */
  code: z.string(),
  message: z.string(),
  /** The moment since which this code has been the reason. */
  since: z.iso.datetime(),
})
export type PromptWait = z.infer<typeof PromptWait>

/** A conversation with an agent in a workspace: prompts in, events out. */
export const Session = z.object({
  id: SessionId,
  workspace: Slug,
  agent: AgentSpec,
  state: SessionState,
  onInterrupt: OnInterrupt,
  createdAt: z.iso.datetime(),
  /** The number of the last event; 0 before the first. */
  lastEvent: z.int().min(0),
  /** The prompts that wait or run, in their order. */
  pending: z.array(PromptId),
  /** Why the prompt waits that is to run next, or that runs; null: it does not wait, or the reason is not known yet. */
  waitsFor: PromptWait.nullable(),
  /** The unanswered asks, oldest first. The agent waits until they are answered. */
  asks: z.array(OpenAsk),
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

export const PromptText = z.string().min(1).max(MAX_PROMPT_CHARS)

/** The time from a prompt's start to its end. */
export const PromptDeadlineMs = z.int().min(1000).max(MAX_PROMPT_MS)

export const Prompt = z.object({
  id: PromptId,
  session: SessionId,
  /** The place in the session: 1, 2, 3, … */
  number: z.int().min(1),
  text: PromptText,
  attachments: z.array(FileName),
  state: PromptState,
  /** Why the prompt waits; null: it has ended or it runs, or the server has not tried it yet. */
  waitsFor: PromptWait.nullable(),
  /** Why the prompt ended as it did. */
  reason: z.string().nullable(),
  /** The sandbox in which the prompt runs or ran. */
  sandbox: SandboxId.nullable(),
  deadlineMs: PromptDeadlineMs.nullable(),
  createdAt: z.iso.datetime(),
  startedAt: z.iso.datetime().nullable(),
  endedAt: z.iso.datetime().nullable(),
  /** The interrupted prompt that this one continues. */
  continues: PromptId.nullable(),
})
export type Prompt = z.infer<typeof Prompt>

/** A person's answer to an agent's ask. */
export const AskAnswer = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("permission"),
    ask: z.string().min(1).max(MAX_NAME_CHARS),
    allow: z.boolean(),
  }),
  z.strictObject({
    kind: z.literal("question"),
    ask: z.string().min(1).max(MAX_NAME_CHARS),
    /** null: declined. */
    answer: z.string().max(MAX_QUESTION_CHARS).nullable(),
  }),
])
export type AskAnswer = z.infer<typeof AskAnswer>
