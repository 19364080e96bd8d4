import { halves, type ModelApi, type Said, type ServerEvent, turnOf, USAGE } from "./api.ts"

interface ChatRequest {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly { readonly function: { readonly name: string } }[]
}

interface ChatMessage {
  readonly role: Said["role"]
  readonly content: string | readonly { readonly text?: string }[] | null
}

/** OpenAI's first API, which many others speak. */
export const chatCompletions: ModelApi = {
  path: "/chat/completions",
  read: (request) => {
    const { model, messages, tools = [] } = request as ChatRequest
    return {
      ...turnOf(messages.map((message) => ({ role: message.role, text: textOf(message) }))),
      model,
      tools: tools.map((tool) => tool.function.name),
    }
  },
  text: (pieces) => ({
    opening: [chunk({ role: "assistant", content: "" })],
    pieces: pieces.map((content) => chunk({ content })),
    closing: closing("stop"),
  }),
  call: (name, parameters) => {
    const [first, rest] = halves(JSON.stringify(parameters))
    const id = `call_${crypto.randomUUID()}`
    const begun = { index: 0, id, type: "function", function: { name, arguments: first } }
    return [
      chunk({ role: "assistant", content: null, tool_calls: [begun] }),
      chunk({ tool_calls: [{ index: 0, function: { arguments: rest } }] }),
      ...closing("tool_calls"),
    ]
  },
  refusal: (status, message) => ({
    body: { error: { message, type: "scripted", code: status } },
  }),
}

const textOf = ({ content }: ChatMessage): string =>
  typeof content === "string" ? content : (content ?? []).map(({ text = "" }) => text).join("")

const closing = (reason: string): ServerEvent[] => [
  chunk({}, reason),
  { data: { ...COMMON, choices: [], usage: TOKENS } },
  { data: "[DONE]" },
]

const COMMON = { id: "scripted", object: "chat.completion.chunk", created: 0, model: "scripted" }
const TOKENS = {
  prompt_tokens: USAGE.input,
  completion_tokens: USAGE.output,
  total_tokens: USAGE.input + USAGE.output,
}

const chunk = (delta: object, reason: string | null = null): ServerEvent => ({
  data: { ...COMMON, choices: [{ index: 0, delta, finish_reason: reason }] },
})
