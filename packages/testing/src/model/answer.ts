import type { ServerResponse } from "node:http"
import { setTimeout as pause } from "node:timers/promises"
import type { ModelApi, ServerEvent } from "./api.ts"
import type { ModelReply } from "./script.ts"

/** Answers as the API would, in the way that the script wants. */
export const answer = async (
  response: ServerResponse,
  api: ModelApi,
  reply: ModelReply,
): Promise<void> => {
  if (reply.delayMs !== undefined) await pause(reply.delayMs)
  if ("status" in reply) return refuse(response, api, reply)
  response.writeHead(200, { "content-type": "text/event-stream" })
  const send = (events: readonly ServerEvent[]) => {
    for (const event of events) response.write(written(event))
  }
  if ("tool" in reply) {
    send(api.call(reply.tool, reply.arguments))
    response.end()
    return
  }
  const { opening, pieces, closing } = api.text(piecesOf(reply))
  send(opening)
  for (const [at, piece] of pieces.entries()) {
    if (at > 0 && "pauseMs" in reply) await pause(reply.pauseMs)
    send([piece])
  }
  if ("hangAfter" in reply) return
  // The written data has to arrive before the connection breaks.
  if ("cutAfter" in reply) response.write("", () => response.socket?.destroy())
  else if ("malformedAfter" in reply) response.end('data: {"this is": no JSON\n\n')
  else {
    send(closing)
    response.end()
  }
}

const piecesOf = (reply: Exclude<ModelReply, { status: number } | { tool: string }>) => {
  if ("text" in reply) return reply.text
  if ("hangAfter" in reply) return [reply.hangAfter]
  return ["cutAfter" in reply ? reply.cutAfter : reply.malformedAfter]
}

const refuse = (
  response: ServerResponse,
  api: ModelApi,
  { status, message, retryAfterS }: Extract<ModelReply, { status: number }>,
): void => {
  const { headers, body } = api.refusal(status, message)
  response.writeHead(status, {
    "content-type": "application/json",
    ...headers,
    ...(retryAfterS !== undefined && { "retry-after": String(retryAfterS) }),
  })
  response.end(JSON.stringify(body))
}

const written = ({ event, data }: ServerEvent): string => {
  const line = `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`
  return event === undefined ? line : `event: ${event}\n${line}`
}
