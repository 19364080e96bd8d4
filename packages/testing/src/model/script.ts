/** What a model does when it is asked. */
export type ModelReply = (
  | {
      readonly text: readonly string[]
      /** Between two pieces of the text. */
      readonly pauseMs?: number
    }
  | { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> }
  /** An answer that begins and never goes on. */
  | { readonly hangAfter: string }
  /** An answer whose connection breaks. */
  | { readonly cutAfter: string }
  /** An answer that goes on with what is no JSON. */
  | { readonly malformedAfter: string }
  | { readonly status: number; readonly message: string; readonly retryAfterS?: number }
) & {
  /** Before it answers at all. */
  readonly delayMs?: number
}

/** What an agent asks the model. */
export interface ModelTurn {
  /** The last text of the user. */
  readonly prompt: string
  /** What the tools answered since then, in order. */
  readonly toolResults: readonly string[]
  /** How many messages the conversation has, with this one. */
  readonly messages: number
  /** Every text that the user said in it, oldest first. */
  readonly userTexts: readonly string[]
  readonly model: string
  /** The names of the tools that the model may call. */
  readonly tools: readonly string[]
  /** What the agent proves itself with; empty if it does not. */
  readonly key: string
}

/** What a model does at each prompt. It is data, so that it can be played anywhere. */
export type ModelScript = readonly ScriptedPrompt[]

export interface ScriptedPrompt {
  /** A part of the user's text. */
  readonly prompt: string
  /** One for each time that it is asked while this is the last prompt; after them, the last again. */
  readonly replies: readonly [ModelReply, ...ModelReply[]]
}

/** Answers each turn with the next reply of the prompt that the user said last. */
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
