import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http"

/** The rest stays here: what hops, what is between client and server alone, and what nobody asked for. */
const TO_SANDBOX = ["accept", "content-type", "content-length", "range", "if-range"]
const FROM_SANDBOX = [
  ...["content-type", "content-length", "content-range", "accept-ranges", "etag"],
]

export const headersToSandbox = (
  headers: IncomingHttpHeaders,
  token: string,
): OutgoingHttpHeaders => ({
  ...pick(headers, TO_SANDBOX),
  authorization: `Bearer ${token}`,
  connection: "close",
})

export const headersFromSandbox = (headers: IncomingHttpHeaders): OutgoingHttpHeaders => ({
  ...pick(headers, FROM_SANDBOX),
  // Whatever the sandbox says it is, no browser is to make more of it.
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
})

const pick = (headers: IncomingHttpHeaders, names: readonly string[]): OutgoingHttpHeaders =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = headers[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
