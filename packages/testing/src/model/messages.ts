import { halves, type ModelApi, type Said, type ServerEvent, turnOf, USAGE } from "./api.ts"

interface MessagesRequest {
  readonly model: string
  readonly messages: readonly { readonly role: "user" | "assistant"; readonly content: Content }[]
  readonly tools?: readonly { readonly name: string }[]
}

type Content = string | readonly Block[]

interface Block {
  readonly type: string
  readonly text?: string
  /** The content of a tool's result. */
  readonly content?: Content
}

/** Anthropic's API. Results of tools come in messages of the user. */
export const messages: ModelApi = {
  path: "/messages",
  read: (request) => {
    const { model, messages, tools = [] } = request as MessagesRequest
    return {
      ...turnOf(messages.flatMap(({ role, content }) => saidIn(role, content))),
      model,
      tools: tools.map(({ name }) => name),
    }
  },
  text: (pieces) => ({
    opening: [MESSAGE_START, blockStart({ type: "text", text: "" })],
    pieces: pieces.map((text) => blockDelta({ type: "text_delta", text })),
    closing: closing("end_turn"),
  }),
  call: (name, parameters) => {
    const id = `toolu_${crypto.randomUUID().replaceAll("-", "")}`
    const pieces = halves(JSON.stringify(parameters))
    return [
      MESSAGE_START,
      blockStart({ type: "tool_use", id, name, input: {} }),
      ...pieces.map((json) => blockDelta({ type: "input_json_delta", partial_json: json })),
      ...closing("tool_use"),
    ]
  },
  // Without the header, Anthropic's own agent repeats even hopeless requests, for minutes.
  refusal: (status, message) => ({
    headers: { "x-should-retry": String(status === 429 || status >= 500) },
    body: { type: "error", error: { type: ERROR_TYPES[status] ?? "api_error", message } },
  }),
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  404: "not_found_error",
  429: "rate_limit_error",
}

/** The messages in a content. Beside results of tools, texts are the agent's own notes, not the user's words. */
const saidIn = (role: "user" | "assistant", content: Content): Said[] => {
  if (typeof content === "string") return [{ role, text: content }]
  const results = content.filter(({ type }) => type === "tool_result")
  if (results.length === 0) return [{ role, text: textOf(content) }]
  return results.map(({ content = "" }) => ({ role: "tool", text: textOf(content) }))
}

const textOf = (content: Content): string =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("\n")

const named = (type: string, more: object = {}): ServerEvent => ({
  event: type,
  data: { type, ...more },
})

const MESSAGE_START = named("message_start", {
  message: {
    id: "msg_scripted",
    type: "message",
    role: "assistant",
    model: "scripted",
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: USAGE.input, output_tokens: 1 },
  },
})

const blockStart = (block: object) =>
  named("content_block_start", { index: 0, content_block: block })

const blockDelta = (delta: object) => named("content_block_delta", { index: 0, delta })

const closing = (reason: string): ServerEvent[] => [
  named("content_block_stop", { index: 0 }),
  named("message_delta", {
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: USAGE.output },
  }),
  named("message_stop"),
]
