import { once } from "node:events"
import { type IncomingMessage, request } from "node:http"
import type { EngineAddress } from "@berth/local/config/engine-address"
import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"

/** An engine answers this in a few milliseconds; a socket that accepts and stays silent is no engine. */
const ENGINE_DEADLINE_MS = 3_000

/** Far above the answer's size of about 1 KB. */
const MAX_ANSWER_BYTES = 64 * 1024

const word = z.string().regex(/^[\w.+~-]{1,64}$/)
const EngineVersion = z.object({ Version: word, ApiVersion: word })
export type EngineVersion = z.infer<typeof EngineVersion>

/** Asks an engine for its version. */
export const engineVersion = async (
  address: EngineAddress,
  signal: AbortSignal,
  deadlineMs = ENGINE_DEADLINE_MS,
): Promise<EngineVersion> => {
  const stop = new AbortController()
  const cancel = () => stop.abort(signal.reason)
  if (signal.aborted) cancel()
  signal.addEventListener("abort", cancel, { once: true })
  const deadline = setTimeout(() => stop.abort(), deadlineMs)
  try {
    return EngineVersion.parse(JSON.parse(await get("/version", address, stop.signal)))
  } catch (thrown) {
    signal.throwIfAborted()
    if (!stop.signal.aborted) throw thrown
    throw new BerthError("deadline.exceeded", `no answer within ${deadlineMs} ms`)
  } finally {
    clearTimeout(deadline)
    signal.removeEventListener("abort", cancel)
  }
}

const get = async (path: string, address: EngineAddress, signal: AbortSignal): Promise<string> => {
  const asked = request({ ...address, path, agent: false, signal })
  asked.end()
  const [answer] = (await once(asked, "response")) as [IncomingMessage]
  try {
    if (answer.statusCode !== 200) throw new Error(`GET ${path} answered ${answer.statusCode}`)
    return await readBounded(answer)
  } finally {
    // A second failure (the abort of a request whose answer is being dropped) must find a listener.
    asked.on("error", () => {})
    asked.destroy()
  }
}

const readBounded = async (answer: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES)
      throw new Error(`an answer of more than ${MAX_ANSWER_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}
