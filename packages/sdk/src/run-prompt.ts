import { newId } from "@berth/protocol/ids"
import type { Prompt } from "@berth/protocol/session"
import type { PromptOptions, SessionCalls } from "./session-calls.ts"
import { type PromptEndState, type WatchOptions, watchPrompt } from "./watch-prompt.ts"

/** `signal` stops the prompt. */
export interface RunOptions extends PromptOptions, Pick<WatchOptions, "onEvent" | "onBreak"> {}

export interface PromptResult {
  readonly prompt: Prompt["id"]
  readonly state: PromptEndState
  /** Why the prompt ended as it did, where there is more to say than its state. */
  readonly reason: string | undefined
  /** The agent's words, put together; for the agent shell, the command's output. */
  readonly text: string
}

/** Sends a prompt and waits for its end. A prompt that fails, is stopped or is interrupted is a result, not an error. */
export const runPrompt = async (
  session: SessionCalls,
  text: string,
  { onEvent, onBreak, ...options }: RunOptions,
): Promise<PromptResult> => {
  const { signal } = options
  const { lastEvent: after } = await session.get({ signal })
  const { id: prompt } = await session.prompt(text, {
    ...options,
    key: options.key ?? newId.prompt(),
  })
  let said = ""
  try {
    const { state, reason } = await watchPrompt(session, {
      prompt,
      after,
      onBreak,
      signal,
      onEvent: (event) => {
        if (event.body.type === "message.delta") said += event.body.text
        onEvent?.(event)
      },
    })
    return { prompt, state, reason, text: said }
  } catch (thrown) {
    if (signal?.aborted) await session.stop({ prompt }).catch(() => undefined)
    throw thrown
  }
}
