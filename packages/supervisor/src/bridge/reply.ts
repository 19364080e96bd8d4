import type { ServerResponse } from "node:http"
import type { Duplex } from "node:stream"

export const reply = (response: ServerResponse, status: number, body?: unknown): void => {
  if (body === undefined) response.writeHead(status, { connection: "close" }).end()
  else response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

/** Answers an upgrade request with a refusal. */
export const refuse = (socket: Duplex, status: string, body?: unknown): void => {
  const text = body === undefined ? "" : JSON.stringify(body)
  const type = body === undefined ? "" : "content-type: application/json\r\n"
  const length = `content-length: ${Buffer.byteLength(text)}`
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n${type}${length}\r\n\r\n${text}`)
}
