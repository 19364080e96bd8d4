import type { IncomingMessage, ServerResponse } from "node:http"
import { BerthError } from "@berth/protocol/errors"
import type { Check } from "../shape.ts"

/** Of a request that is not a file: a command line and an environment have room in it. */
export const MAX_JSON_BYTES = 4 * 1024 * 1024

/** The body as JSON of the form that is checked. */
export const readJson = async <Body>(request: IncomingMessage, check: Check): Promise<Body> => {
  const chunks: Buffer[] = []
  let bytes = 0
  // A client that sends too much must still hear it, over the same connection.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length
    if (bytes > MAX_JSON_BYTES)
      throw new BerthError("input.too_large", "the body is larger than is accepted", {
        details: { limitBytes: MAX_JSON_BYTES },
      })
    chunks.push(chunk)
  }
  const value = parse(Buffer.concat(chunks).toString("utf8"))
  const problem = check(value, "body")
  if (problem !== undefined) throw new BerthError("input.invalid", problem)
  return value as Body
}

export const sendJson = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new BerthError("input.invalid", "the body is not JSON", { cause })
  }
}
