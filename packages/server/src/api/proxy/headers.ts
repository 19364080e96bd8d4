import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http"

/** The request headers that a sandbox gets. Hop-by-hop headers and those between client and server stay here. */
const TO_SANDBOX = ["accept", "content-type", "content-length", "range", "if-range"]

export const headersToSandbox = (
  headers: IncomingHttpHeaders,
  token: string,
): OutgoingHttpHeaders => ({
  ...pick(headers, TO_SANDBOX),
  authorization: `Bearer ${token}`,
  // The server ends the connection when it has the answer. A sandbox that ended it with its answer could do so while
  // the server still writes: the write fails, and the answer is lost with the connection.
  connection: "keep-alive",
})

const pick = (headers: IncomingHttpHeaders, names: readonly string[]): OutgoingHttpHeaders =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
