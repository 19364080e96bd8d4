import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"
import { answer } from "./model/answer.ts"
import { chatCompletions } from "./model/chat-completions.ts"
import { messages } from "./model/messages.ts"
import { responses } from "./model/responses.ts"
import type { ModelReply, ModelTurn } from "./model/script.ts"

export type { ModelReply, ModelTurn } from "./model/script.ts"

const APIS = [chatCompletions, messages, responses]

/** A model that follows a script: the vendors' streaming APIs on loopback, without any intelligence. */
export interface ScriptedModel {
  readonly port: number
  readonly baseUrl: string
  /** Every turn that was asked for. */
  readonly turns: readonly ModelTurn[]
  close(): Promise<void>
}

export interface ScriptedModelOptions {
  /** Default: any free port. */
  readonly port?: number
  readonly onTurn?: (turn: ModelTurn) => void
}

/** Starts a model. `script` is called for each turn. A request without tools wants a title, and gets one. */
export const startScriptedModel = async (
  script: (turn: ModelTurn) => ModelReply,
  { port: wanted = 0, onTurn = () => {} }: ScriptedModelOptions = {},
): Promise<ScriptedModel> => {
  const turns: ModelTurn[] = []
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const api = APIS.find(({ path }) => request.url?.split("?")[0]?.endsWith(path))
    if (api === undefined) return response.writeHead(404).end()
    const turn = { ...api.read(await json(request)), key: keyOf(request) }
    if (turn.tools.length === 0) return answer(response, api, { text: ["A title"] })
    turns.push(turn)
    onTurn(turn)
    return answer(response, api, script(turn))
  }
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(wanted, "127.0.0.1", resolve))
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

const keyOf = ({ headers }: IncomingMessage): string =>
  String(headers["x-api-key"] ?? headers.authorization?.replace(/^Bearer /, "") ?? "")
