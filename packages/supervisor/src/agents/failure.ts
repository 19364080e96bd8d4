import type { PromptResult } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { Say } from "./agent.ts"
import { clip } from "./clip.ts"

const MAX_WORDS = 4_000

/** What a reader of the session is told of it. */
export const errorEvent = (prompt: PromptId, { code, message, hint }: BerthError): EventBody => ({
  type: "error",
  prompt,
  code,
  hint,
  message: clip(message, MAX_WORDS),
})

/** Runs a prompt. What fails of the agent is told, and is the prompt's end. */
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
    /** Stops it: what fails then has stopped. */
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
