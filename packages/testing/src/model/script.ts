/** A model's answer to a request. */
export type ModelReply = (
  | {
      readonly text: readonly string[]
      /** The pause between two pieces of the text. */
      readonly pauseMs?: number
    }
  | { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> }
  /** An answer that begins and never goes on. */
  | { readonly hangAfter: string }
  /** An answer whose connection breaks. */
  | { readonly cutAfter: string }
  /** An answer that continues with invalid JSON. */
  | { readonly malformedAfter: string }
  | { readonly status: number; readonly message: string; readonly retryAfterS?: number }
) & {
  /** The pause before the answer begins. */
  readonly delayMs?: number
}

/** An agent's request to the model. */
export interface ModelTurn {
  /** The last text of the user. */
  readonly prompt: string
  /** The results of the tools since then, in order. */
  readonly toolResults: readonly string[]
  /** The number of messages in the conversation, with this one. */
  readonly messages: number
  /** Every text of the user in the conversation, oldest first. */
  readonly userTexts: readonly string[]
  readonly model: string
  /** The names of the tools that the model may call. */
  readonly tools: readonly string[]
  /** The agent's API key; empty if there is none. */
  readonly key: string
}

/** The answers of a model to each prompt. It is data, so that it can be played anywhere. */
export type ModelScript = readonly ScriptedPrompt[]

export interface ScriptedPrompt {
  /** A part of the user's text. */
  readonly prompt: string
  /** The replies to requests while this is the last prompt, in order; after them, the last one again. */
  readonly replies: readonly [ModelReply, ...ModelReply[]]
}

/** Answers each turn with the next reply of the user's last prompt. */
export const playScript = (script: ModelScript): ((turn: ModelTurn) => ModelReply) => {
  const asked = new Map<ScriptedPrompt, number>()
  return ({ userTexts }) => {
    const scripted = userTexts
      .toReversed()
      .map((text) => script.find(({ prompt }) => text.includes(prompt)))
      .find((found) => found !== undefined)
    if (scripted === undefined) return { status: 400, message: "the script has no such prompt" }
    const times = asked.get(scripted) ?? 0
    asked.set(scripted, times + 1)
    return scripted.replies[Math.min(times, scripted.replies.length - 1)] as ModelReply
  }
}
