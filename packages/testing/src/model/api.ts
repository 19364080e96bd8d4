import type { ModelTurn } from "./script.ts"

/** A server-sent event. */
export interface ServerEvent {
  readonly event?: string
  readonly data: unknown
}

/** A streamed text: the events before its pieces, the pieces, and the events that end it. */
export interface TextStream {
  readonly opening: readonly ServerEvent[]
  readonly pieces: readonly ServerEvent[]
  readonly closing: readonly ServerEvent[]
}

/** A vendor's API for asking a model. */
export interface ModelApi {
  /** The end of the path of requests. */
  readonly path: string
  read(request: unknown): Omit<ModelTurn, "key">
  text(pieces: readonly string[]): TextStream
  call(tool: string, parameters: Readonly<Record<string, unknown>>): readonly ServerEvent[]
  /** The answer when it refuses. */
  refusal(status: number, message: string): Refusal
}

export interface Refusal {
  readonly headers?: Readonly<Record<string, string>>
  readonly body: unknown
}

/** A message in the form that all APIs have in common: its role, and its text. */
export interface Said {
  readonly role: "user" | "assistant" | "tool" | "system"
  readonly text: string
}

/** The current turn of a conversation. */
export const turnOf = (
  said: readonly Said[],
): Pick<ModelTurn, "prompt" | "toolResults" | "messages" | "userTexts"> => {
  const at = said.findLastIndex(({ role }) => role === "user")
  const textsOf = (some: readonly Said[], role: Said["role"]) =>
    some.filter((one) => one.role === role).map(({ text }) => text)
  return {
    prompt: said[at]?.text ?? "",
    toolResults: textsOf(said.slice(at + 1), "tool"),
    messages: said.length,
    userTexts: textsOf(said, "user"),
  }
}

/** The usage that the answers report. */
export const USAGE = { input: 100, output: 20 } as const

/** A text in two pieces, as models stream them. */
export const halves = (text: string): [string, string] => {
  const middle = Math.ceil(text.length / 2)
  return [text.slice(0, middle), text.slice(middle)]
}
