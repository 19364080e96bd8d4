import { type IncomingMessage, request } from "node:http"
import { BerthError } from "@berth/protocol/errors"
import { parseModest } from "../modest-json.ts"
import { EventLines } from "./event-lines.ts"
import { GatheredBytes } from "./gathered-bytes.ts"
import { wordsOf } from "./words.ts"

/** Time limit of one call, from connecting to the last byte. Every call made here is answered before any long work. */
export const CALL_LIMIT_MS = 15_000
/** Limit of an answer. The longest is a list of a thousand conversations, each less than 2 KiB. */
const MAX_REPLY_BYTES = 4 * 1024 * 1024
/**
 * Interval at which an open event stream is checked. OpenCode sends a heartbeat every ten seconds; after two intervals
 * without a byte the stream is dead. One silent interval may be a sandbox that was frozen while its clock went on.
 */
export const SILENCE_SPAN_MS = 20_000

/** Limit of interim (1xx) answers before an answer. OpenCode sends none. */
const MAX_INTERIM_ANSWERS = 8

const LOOPBACK = "127.0.0.1"

export interface Address {
  readonly port: number
  readonly password: string
}

export interface Call {
  readonly body?: unknown
  readonly limitMs?: number
  readonly signal?: AbortSignal
}

/** An HTTP client for one process of OpenCode's server, which trusts its answers as little as possible. */
export class Client {
  readonly #address: Address

  constructor(address: Address) {
    this.#address = address
  }

  get(path: string, call: Omit<Call, "body"> = {}): Promise<unknown> {
    return this.#call("GET", path, call)
  }

  patch(path: string, call: Call): Promise<unknown> {
    return this.#call("PATCH", path, call)
  }

  post(path: string, call: Call = {}): Promise<unknown> {
    return this.#call("POST", path, call)
  }

  /** The event stream, in batches as they arrive. After the first batch, no later event is missed. */
  async *events(path: string, signal: AbortSignal): AsyncGenerator<readonly unknown[]> {
    const title = `GET ${pathOf(path)}`
    const response = await this.#open("GET", path, { title, signal })
    if (response.statusCode !== 200)
      throw await refusal(title, response).finally(() => response.destroy())
    const lines = new EventLines()
    let silentSpans = 0
    let isWaiting = true
    const watch = setInterval(() => {
      if (isWaiting && ++silentSpans > 2)
        response.destroy(new BerthError("agent.unavailable", "OpenCode has fallen silent"))
    }, SILENCE_SPAN_MS)
    try {
      for await (const chunk of response) {
        isWaiting = false
        silentSpans = 0
        yield lines.of(chunk as Buffer)
        isWaiting = true
      }
    } catch (thrown) {
      if (!signal.aborted) throw unreachable(title, thrown)
    } finally {
      clearInterval(watch)
      response.destroy()
    }
  }

  async #call(method: string, path: string, call: Call): Promise<unknown> {
    const { body, limitMs = CALL_LIMIT_MS, signal: outer } = call
    const title = `${method} ${pathOf(path)}`
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), limitMs)
    const signal = outer === undefined ? late.signal : AbortSignal.any([outer, late.signal])
    try {
      const response = await this.#open(method, path, { title, signal, body })
      if (!isSuccess(response)) throw await refusal(title, response)
      return parsed(title, await read(title, response))
    } catch (thrown) {
      if (outer?.aborted) throw new BerthError("cancelled", `${title} was cancelled`)
      if (late.signal.aborted)
        throw new BerthError(
          "deadline.exceeded",
          `OpenCode did not answer ${title} in ${limitMs} ms`,
        )
      throw thrown instanceof BerthError ? thrown : unreachable(title, thrown)
    } finally {
      clearTimeout(timer)
    }
  }

  /** Opens a connection for each call, so that a call that hangs blocks no other. */
  #open(
    method: string,
    path: string,
    { title, signal, body }: { title: string; signal: AbortSignal; body?: unknown },
  ): Promise<IncomingMessage> {
    const { port, password } = this.#address
    const text = body === undefined ? "" : JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const asked = request({
        host: LOOPBACK,
        port,
        method,
        path,
        agent: false,
        signal,
        auth: `opencode:${password}`,
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(text) },
      })
      let interimAnswers = 0
      asked.on("information", () => {
        if (++interimAnswers > MAX_INTERIM_ANSWERS) asked.destroy(tooManyInterim(title))
      })
      asked.once("response", resolve)
      // After the response has arrived, its reader gets the error instead.
      asked.on("error", (error) => reject(unreachable(title, error)))
      // Node closes the connection without an error where an answer is to be followed by another protocol.
      asked.once("close", () => reject(unreachable(title, new Error("it closed the connection"))))
      asked.end(text)
    })
  }
}

/** The path for messages, without the query, which names directories. */
const pathOf = (path: string): string => path.split("?", 1)[0] as string

const isSuccess = ({ statusCode = 0 }: IncomingMessage): boolean =>
  statusCode >= 200 && statusCode < 300

const read = async (title: string, response: IncomingMessage): Promise<string> => {
  const bytes = new GatheredBytes()
  for await (const chunk of response) {
    if (bytes.length + (chunk as Buffer).length > MAX_REPLY_BYTES)
      throw new BerthError("agent.failed", `OpenCode's answer to ${title} is too long`, {
        details: { maxBytes: MAX_REPLY_BYTES },
      })
    bytes.add(chunk as Buffer)
  }
  return bytes.take()
}

const parsed = (title: string, text: string): unknown => {
  if (text === "") return undefined
  try {
    return parseModest(text)
  } catch (cause) {
    throw new BerthError("agent.failed", `OpenCode's answer to ${title} is no JSON`, { cause })
  }
}

const MAX_WORDS = 2_000

const refusal = async (title: string, response: IncomingMessage): Promise<BerthError> => {
  const status = response.statusCode
  const text = await read(title, response).catch(() => "")
  const words = (wordsIn(text) ?? text).slice(0, MAX_WORDS)
  return new BerthError("agent.failed", `OpenCode refused ${title} with ${status}: ${words}`, {
    details: { status },
  })
}

const wordsIn = (text: string): string | undefined => {
  try {
    return wordsOf(parseModest(text))
  } catch {
    return undefined
  }
}

const tooManyInterim = (title: string): BerthError =>
  new BerthError("agent.failed", `OpenCode sent too many interim answers to ${title}`, {
    details: { max: MAX_INTERIM_ANSWERS },
  })

const unreachable = (title: string, cause: unknown): BerthError => {
  if (cause instanceof BerthError) return cause
  const code = (cause as NodeJS.ErrnoException).code ?? "unknown"
  return new BerthError("agent.unavailable", `OpenCode does not answer ${title}: ${code}`, {
    details: { code },
    cause,
  })
}
