import { MAX_CHOICES, MAX_QUESTION_CHARS } from "@berth/protocol/session-limits"
import { clip } from "../clip.ts"
import { type Json, listIn, objectIn, textIn } from "../read.ts"

/** Limit of one choice, so that an event with a question and all its choices is not too large. */
const MAX_CHOICE_CHARS = 512

export interface Question {
  readonly ask: string
  readonly question: string
  readonly choices: readonly string[]
}

/** A permission request or a set of questions from OpenCode, which waits for the answer. */
export type AgentAsk =
  | { readonly kind: "permission"; readonly id: string; readonly about: string }
  | { readonly kind: "question"; readonly id: string; readonly questions: readonly Question[] }

/** The answer that an ask got. */
export interface AgentAskAnswer {
  readonly id: string
  readonly allowed: boolean
  /** The answers in the order of the questions; undefined if they were declined. */
  readonly answers: readonly string[] | undefined
}

/** The ask in an event of OpenCode, if there is one. */
export const asksIn = (type: unknown, said: Json): AgentAsk[] => {
  const id = textIn(said.id) ?? ""
  // The id becomes part of a URL path unescaped.
  if (!/^\w{1,128}$/.test(id)) return []
  if (type === "question.asked") return [{ kind: "question", id, questions: questionsIn(id, said) }]
  if (type !== "permission.asked") return []
  const patterns = listIn(said.patterns).filter((each) => typeof each === "string")
  const about = [
    textIn(said.permission) ?? "something",
    ...(patterns.length > 0 ? [patterns.join(", ")] : []),
  ]
  return [{ kind: "permission", id, about: clip(about.join(": "), MAX_QUESTION_CHARS) }]
}

const questionsIn = (id: string, { questions }: Json): Question[] =>
  listIn(questions).map((each, place) => {
    const { question, options } = objectIn(each)
    const labels = listIn(options).map((option) => textIn(objectIn(option).label) ?? "")
    return {
      ask: place === 0 ? id : `${id}-${place + 1}`,
      question: clip(textIn(question) ?? "", MAX_QUESTION_CHARS),
      choices: labels.slice(0, MAX_CHOICES).map((label) => clip(label, MAX_CHOICE_CHARS)),
    }
  })

/** The answer in an event of OpenCode, if there is one. */
export const askAnswersIn = (type: unknown, said: Json): AgentAskAnswer[] => {
  const id = textIn(said.requestID) ?? ""
  const [allowed, answers] = [said.reply !== "reject", undefined]
  if (type === "permission.replied" || type === "question.rejected")
    return [{ id, allowed, answers }]
  if (type !== "question.replied") return []
  const words = listIn(said.answers).map((each) =>
    listIn(each)
      .filter((word) => typeof word === "string")
      .join(", "),
  )
  return [{ id, allowed, answers: words.map((each) => clip(each, MAX_QUESTION_CHARS)) }]
}
