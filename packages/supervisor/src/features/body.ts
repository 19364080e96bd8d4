import type { IncomingMessage, ServerResponse } from "node:http"
import { BerthError } from "@berth/protocol/errors"
import type { Check } from "../shape.ts"

/** Limit of a body that is not a file. A command line and an environment fit in it. */
export const MAX_JSON_BYTES = 4 * 1024 * 1024

/** Reads the body as JSON, and checks it. */
export const readJson = async <Body>(request: IncomingMessage, check: Check): Promise<Body> => {
  const chunks: Buffer[] = []
  let bytes = 0
  // The connection stays open, as a client that sends too much must get the error on it.
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
