import type { EventBody } from "@berth/protocol/event"
import type { OpenAsk } from "@berth/protocol/session"
import { shortened } from "./event-line.ts"
import { sayDuration } from "./say-duration.ts"
import { shellWord } from "./terminal.ts"

type Asked = Extract<EventBody, { type: "permission.asked" | "question.asked" }>

/**
 * The command that answers an ask. An agent chooses the ask's name: it is quoted as one word for the shell, and is no
 * option.
 */
export const answerCommand = (
  session: string,
  { kind, ask }: Pick<OpenAsk, "kind" | "ask">,
): string => {
  const word = `${ask.startsWith("-") ? "-- " : ""}${shellWord(ask)}`
  return kind === "permission"
    ? `berth answer ${session} --allow ${word} (or --deny)`
    : `berth answer ${session} ${word} "the answer"`
}

export const kindOf = ({ type }: Asked): OpenAsk["kind"] =>
  type === "permission.asked" ? "permission" : "question"

/** Says in one line what an agent waits for, and since when. */
export const sayAsk = ({ kind, about, since }: OpenAsk): string => {
  const what = kind === "permission" ? "permission" : "an answer"
  const ago = sayDuration(Math.max(0, Date.now() - Date.parse(since)))
  return `the agent waits for ${what}, since ${ago}: ${shortened(about)}`
}
