import { STATUS_CODES } from "node:http"

/** An HTTP response with JSON for a socket that has no response object. The connection ends after it. */
export const bareAnswer = (status: number, said: unknown): string => {
  const body = JSON.stringify(said)
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    "",
    body,
  ].join("\r\n")
}
