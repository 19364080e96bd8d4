import { abortable } from "@berth/host/abortable"
import type { PromptStanding, PromptStart } from "@berth/protocol/bridge"
import type { SandboxId } from "@berth/protocol/ids"
import type { AgentSpec } from "@berth/protocol/workspace"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { attachmentPath } from "./assign.ts"
import type { AssignedPrompt, OpenPrompt } from "./rows.ts"

/** Sends a sandbox its prompt. Resolves with how far the sandbox is with it. */
export const sendStart = (
  sandboxes: Pick<UsedSandboxes, "connection">,
  prompt: AssignedPrompt,
  signal: AbortSignal,
): Promise<PromptStanding> => {
  const connection = sandboxes.connection(prompt.sandbox)
  return abortable(connection.startPrompt(startOf(prompt, connection.agent)), signal)
}

/** Sends a sandbox the stop of its prompt. */
export const sendStop = (
  sandboxes: Pick<UsedSandboxes, "connection">,
  { id, sandbox }: AssignedPrompt,
  signal: AbortSignal,
): Promise<PromptStanding> => abortable(sandboxes.connection(sandbox).stopPrompt(id), signal)

/**
 * Waits for the connection. Returns without one where there will never be one: the next call to the sandbox fails then.
 */
export const awaitConnection = async (
  sandboxes: Pick<UsedSandboxes, "connection">,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  try {
    await abortable(sandboxes.connection(sandbox).connected, signal)
  } catch {}
}

const startOf = (
  { id, session, text, attachments, deadlineMs, agent }: OpenPrompt,
  there: AgentSpec["kind"],
): PromptStart => ({
  prompt: id,
  session,
  text,
  ...(attachments.length > 0 && {
    attachments: attachments.map((name) => attachmentPath(id, name)),
  }),
  ...(deadlineMs !== null && { deadlineMs }),
  ...(agent === "shell" && there !== "shell" && { agent }),
})
