import type { IncomingMessage, ServerResponse } from "node:http"
import { BerthError } from "@berth/protocol/errors"
import type { FormOf } from "@berth/protocol/form"
import { checked } from "../checks/check.ts"

/** Limit of a body that is not a file. A command line and an environment fit in it. */
export const MAX_JSON_BYTES = 4 * 1024 * 1024

/** Reads the body as JSON, and checks it. */
export const readJson = async <Body>(
  request: IncomingMessage,
  form: FormOf<Body>,
): Promise<Body> => {
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
  return checked(form, parseJson(Buffer.concat(chunks).toString("utf8"), "the body"), "body")
}

export const sendJson = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

export const parseJson = (text: string, what: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new BerthError("input.invalid", `${what} is not JSON`, { cause })
  }
}
