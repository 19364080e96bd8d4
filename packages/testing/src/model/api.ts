import type { ModelTurn } from "./script.ts"

/** One server-sent event. */
export interface ServerEvent {
  readonly event?: string
  readonly data: unknown
}

/** A streamed text: what comes before its pieces, the pieces, and what ends it. */
export interface TextStream {
  readonly opening: readonly ServerEvent[]
  readonly pieces: readonly ServerEvent[]
  readonly closing: readonly ServerEvent[]
}

/** One vendor's way to ask a model and to be answered. */
export interface ModelApi {
  /** Where requests go, as the end of the path. */
  readonly path: string
  read(request: unknown): Omit<ModelTurn, "key">
  text(pieces: readonly string[]): TextStream
  call(tool: string, parameters: Readonly<Record<string, unknown>>): readonly ServerEvent[]
  /** What it says when it refuses. */
  refusal(status: number, message: string): Refusal
}

export interface Refusal {
  readonly headers?: Readonly<Record<string, string>>
  readonly body: unknown
}

/** A message, as all of them can be read: its role, and its parts. */
export interface Said {
  readonly role: "user" | "assistant" | "tool" | "system"
  readonly text: string
}

/** The turn that a conversation has come to. */
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

/** What the answers say they cost. */
export const USAGE = { input: 100, output: 20 } as const

/** In two pieces, as models write them. */
export const halves = (text: string): [string, string] => {
  const middle = Math.ceil(text.length / 2)
  return [text.slice(0, middle), text.slice(middle)]
}
