import { halves, type ModelApi, type Said, type ServerEvent, turnOf, USAGE } from "./api.ts"

interface ResponsesRequest {
  readonly model: string
  readonly input: string | readonly Item[]
  readonly tools?: readonly { readonly name?: string; readonly type: string }[]
}

interface Item {
  readonly type?: string
  readonly role?: Said["role"] | "developer"
  readonly content?: Content
  /** The output of a tool's result. */
  readonly output?: Content
}

type Content = string | readonly { readonly text?: string }[]

/** OpenAI's later API. */
export const responses: ModelApi = {
  path: "/responses",
  read: (request) => {
    const { model, input, tools = [] } = request as ResponsesRequest
    const items = typeof input === "string" ? [{ role: "user" as const, content: input }] : input
    return {
      ...turnOf(items.flatMap(saidIn)),
      model,
      tools: tools.map(({ name, type }) => name ?? type),
    }
  },
  text: (pieces) => {
    const id = newId("msg")
    const at = { item_id: id, output_index: 0, content_index: 0 }
    const part = (text: string) => ({ type: "output_text", text, annotations: [] })
    const message = { id, type: "message", role: "assistant" }
    const whole = pieces.join("")
    const done = { ...message, status: "completed", content: [part(whole)] }
    return {
      opening: [
        ...opening(),
        itemAdded({ ...message, status: "in_progress", content: [] }),
        named("response.content_part.added", { ...at, part: part("") }),
      ],
      pieces: pieces.map((delta) => named("response.output_text.delta", { ...at, delta })),
      closing: [
        named("response.output_text.done", { ...at, text: whole }),
        named("response.content_part.done", { ...at, part: part(whole) }),
        ...closing(done),
      ],
    }
  },
  call: (name, parameters) => {
    const id = newId("fc")
    const call = { id, type: "function_call", call_id: newId("call"), name }
    const at = { item_id: id, output_index: 0 }
    const whole = JSON.stringify(parameters)
    return [
      ...opening(),
      itemAdded({ ...call, status: "in_progress", arguments: "" }),
      ...halves(whole).map((delta) =>
        named("response.function_call_arguments.delta", { ...at, delta }),
      ),
      named("response.function_call_arguments.done", { ...at, arguments: whole }),
      ...closing({ ...call, status: "completed", arguments: whole }),
    ]
  },
  refusal: (status, message) => ({
    body: { error: { message, type: "scripted", code: String(status) } },
  }),
}

const saidIn = ({ type = "message", role, content = "", output = "" }: Item): Said[] => {
  if (type.endsWith("_call_output")) return [{ role: "tool", text: textOf(output) }]
  if (type !== "message" || role === undefined) return []
  return [{ role: role === "developer" ? "system" : role, text: textOf(content) }]
}

const textOf = (content: Content): string =>
  typeof content === "string" ? content : content.map(({ text = "" }) => text).join("\n")

const newId = (kind: string) => `${kind}_${crypto.randomUUID().replaceAll("-", "")}`

const named = (type: string, more: object): ServerEvent => ({
  event: type,
  data: { type, ...more },
})

const RESPONSE = { id: "resp_scripted", object: "response", created_at: 0, model: "scripted" }

const opening = (): ServerEvent[] => [
  named("response.created", { response: { ...RESPONSE, status: "in_progress", output: [] } }),
]

const itemAdded = (item: object) => named("response.output_item.added", { output_index: 0, item })

const closing = (item: object): ServerEvent[] => [
  named("response.output_item.done", { output_index: 0, item }),
  named("response.completed", {
    response: {
      ...RESPONSE,
      status: "completed",
      output: [item],
      usage: {
        input_tokens: USAGE.input,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: USAGE.output,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: USAGE.input + USAGE.output,
      },
    },
  }),
]
