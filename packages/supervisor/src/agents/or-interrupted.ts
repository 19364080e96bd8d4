import type { PromptResult } from "@berth/protocol/bridge"
import type { PromptId } from "@berth/protocol/ids"

/** A process of an agent, which works on prompts of several sessions. */
export interface SharedLife {
  /** The prompt because of which the process was ended by force. */
  endedFor: PromptId | undefined
}

const INTERRUPTED: PromptResult = {
  state: "interrupted",
  reason: "the agent's process was ended by force because of another session's prompt",
}

/**
 * Runs a prompt. If the agent's process was ended because of another prompt, this one is interrupted, not failed:
 * nobody knows what it did.
 */
export const orInterrupted = async (
  run: () => Promise<PromptResult>,
  {
    prompt,
    life,
    signal,
  }: { readonly prompt: PromptId; readonly life: SharedLife; readonly signal: AbortSignal },
): Promise<PromptResult> => {
  try {
    return await run()
  } catch (thrown) {
    const isItsOwn = life.endedFor === undefined || life.endedFor === prompt
    if (isItsOwn || signal.aborted) throw thrown
    return INTERRUPTED
  }
}
