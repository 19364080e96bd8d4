import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import type { Session } from "@berth/sdk/sessions"

const ASK_AGAIN_MS = 500

/** Asks to stop a prompt until a server has received it. */
export const stopPrompt = async (
  session: Session,
  prompt: PromptId,
  signal: AbortSignal,
): Promise<void> => {
  for (;;) {
    try {
      await session.stop({ prompt, signal })
      return
    } catch (thrown) {
      if (!(thrown instanceof BerthError) || thrown.retry === "never") throw thrown
      await pause(ASK_AGAIN_MS, undefined, { signal })
    }
  }
}
