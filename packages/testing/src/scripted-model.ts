import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"

/** What an agent asks the model. */
export interface ModelTurn {
  /** The last text of the user. */
  readonly prompt: string
  /** What the tools answered since then, in order. */
  readonly toolResults: readonly string[]
  /** How many messages the conversation has, with this one. */
  readonly messages: number
}

export type ModelReply =
  | { readonly text: readonly string[] }
  | { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> }
  /** An answer that begins and never goes on. */
  | { readonly hangAfter: string }
  | { readonly status: number; readonly message: string }

/** A model that follows a script: what OpenAI's streaming API is, on loopback, without any intelligence. */
export interface ScriptedModel {
  readonly port: number
  readonly baseUrl: string
  /** Every turn that was asked for. */
  readonly turns: readonly ModelTurn[]
  close(): Promise<void>
}

interface ChatMessage {
  readonly role: string
  readonly content: string | readonly { readonly text?: string }[] | null
}

interface ChatRequest {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly unknown[]
}

/** `script` is asked for each turn. What asks without tools wants a title, and gets one. */
export const startScriptedModel = async (
  script: (turn: ModelTurn) => ModelReply,
  listenPort = 0,
): Promise<ScriptedModel> => {
  const turns: ModelTurn[] = []
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const chat = (await json(request)) as ChatRequest
    if (chat.tools === undefined) return reply(response, { text: ["A title"] })
    const turn = turnOf(chat)
    turns.push(turn)
    return reply(response, script(turn))
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(listenPort, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  return {
    port,
    baseUrl: `http://127.0.0.1:${port}/v1`,
    turns,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const turnOf = ({ messages }: ChatRequest): ModelTurn => {
  const at = messages.findLastIndex(({ role }) => role === "user")
  const results = messages.slice(at + 1).filter(({ role }) => role === "tool")
  return {
    prompt: textOf(messages[at]),
    toolResults: results.map(textOf),
    messages: messages.length,
  }
}

const textOf = (message: ChatMessage | undefined): string =>
  typeof message?.content === "string"
    ? message.content
    : (message?.content ?? []).map(({ text = "" }) => text).join("")

const reply = (response: ServerResponse, what: ModelReply): void => {
  if ("status" in what) {
    response.writeHead(what.status, { "content-type": "application/json" })
    response.end(JSON.stringify({ error: { message: what.message, type: "scripted" } }))
    return
  }
  response.writeHead(200, { "content-type": "text/event-stream" })
  const send = (delta: object, finish: string | null = null) =>
    response.write(
      `data: ${JSON.stringify({
        ...{ id: "scripted", object: "chat.completion.chunk", created: 0, model: "scripted" },
        choices: [{ index: 0, delta, finish_reason: finish }],
      })}\n\n`,
    )
  send({ role: "assistant", content: "" })
  if ("hangAfter" in what) {
    send({ content: what.hangAfter })
    return
  }
  if ("tool" in what) {
    const call = { name: what.tool, arguments: JSON.stringify(what.arguments) }
    const id = `call_${Math.random().toString(36).slice(2)}`
    send({ tool_calls: [{ index: 0, id, type: "function", function: call }] })
    send({}, "tool_calls")
  } else {
    for (const content of what.text) send({ content })
    send({}, "stop")
  }
  response.end("data: [DONE]\n\n")
}
