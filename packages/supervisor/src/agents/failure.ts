import type { PromptResult } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { Say } from "./agent.ts"
import { clip } from "./clip.ts"

const MAX_WORDS = 4_000

/** The event that reports an error to readers of the session. */
export const errorEvent = (prompt: PromptId, { code, message, hint }: BerthError): EventBody => ({
  type: "error",
  prompt,
  code,
  hint,
  message: clip(message, MAX_WORDS),
})

/** Runs a prompt. An error of the agent is reported as an event, and fails the prompt. */
export const failingOf = async (
  run: () => Promise<PromptResult>,
  {
    prompt,
    say,
    signal,
    onFailure,
  }: {
    readonly prompt: PromptId
    readonly say: Say
    /** Stops the prompt. An error after that counts as stopped. */
    readonly signal: AbortSignal
    readonly onFailure: () => void
  },
): Promise<PromptResult> => {
  try {
    return await run()
  } catch (thrown) {
    if (signal.aborted) return { state: "stopped" }
    onFailure()
    if (!(thrown instanceof BerthError)) throw thrown
    await say(errorEvent(prompt, thrown))
    return { state: "failed", reason: thrown.message }
  }
}
