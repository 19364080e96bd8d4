import { BerthError } from "@berth/protocol/errors"
import { boundedText } from "./bounded-text.ts"
import { cancelled } from "./pause.ts"
import { errorOfReply, notBerth } from "./reply-error.ts"

/** The address and the token of a server. */
export interface ServerAddress {
  readonly url: string
  readonly token?: string | undefined
}

export interface Connection {
  /** The last known address of the server, for messages. */
  readonly url: string
  /** Called before each call: a restarted server may answer elsewhere. */
  find(signal: AbortSignal): Promise<ServerAddress>
  readonly deadlineMs: number
  readonly fetch: typeof globalThis.fetch
  /** Undefined where the runtime has no WebSocket. */
  readonly WebSocket: typeof globalThis.WebSocket | undefined
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly deadlineMs?: number | undefined
}

/** The bound on an error reply, also where a sandbox wrote the message. */
const MAX_ERROR_BYTES = 1024 * 1024

/** The schema of a reply. */
export interface ReplySchema<Reply> {
  safeParse(value: unknown): { success: true; data: Reply } | { success: false }
}

/** A request. */
export interface Ask {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE"
  /** The path from the root, with its query. */
  readonly path: string
  /** The body, sent as JSON. */
  readonly json?: unknown
  /** The body, sent as it is. */
  readonly body?: Sendable
  readonly headers?: Readonly<Record<string, string>>
  /** The longest reply that is read, where a sandbox decides how long it is. */
  readonly maxReplyBytes?: number
}

/** The content of a file. A stream is sent as it comes, where the platform can. */
export type Sendable = string | Uint8Array | Blob | ReadableStream<Uint8Array>

export const get = <Reply>(
  connection: Connection,
  path: string,
  schema: ReplySchema<Reply>,
  options?: CallOptions,
): Promise<Reply> => call(connection, { path }, schema, options)

/** Sends a request, and resolves with the reply once it is complete and matches the schema. */
export const call = async <Reply>(
  connection: Connection,
  ask: Ask,
  schema: ReplySchema<Reply>,
  options: CallOptions = {},
): Promise<Reply> => {
  const { status, text } = await within(connection, options, async (signal) => {
    const reply = await exchange(connection, ask, signal)
    const { maxReplyBytes } = ask
    const text = maxReplyBytes === undefined ? reply.text() : boundedText(reply, maxReplyBytes)
    return { status: reply.status, text: await text }
  })
  const parsed = schema.safeParse(parseJson(text))
  if (!parsed.success) throw notBerth(connection.url, status)
  return parsed.data
}

/** Sends a request whose reply has no content. */
export const command = async (
  connection: Connection,
  ask: Ask,
  options: CallOptions = {},
): Promise<void> => {
  await within(connection, options, async (signal) => {
    await (await exchange(connection, ask, signal)).arrayBuffer()
  })
}

/** Sends a request, and resolves when the reply begins: the deadline is for that. Ending the stream ends the call. */
export const stream = async (
  connection: Connection,
  ask: Ask,
  { signal, deadlineMs }: CallOptions = {},
): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> => {
  const ended = new AbortController()
  const both = AbortSignal.any([ended.signal, ...(signal ? [signal] : [])])
  try {
    const reply = await within(connection, { signal, deadlineMs }, (late) => {
      late.addEventListener("abort", () => ended.abort(late.reason))
      return exchange(connection, ask, both)
    })
    return reply.body ?? new ReadableStream({ start: (controller) => controller.close() })
  } catch (thrown) {
    ended.abort()
    throw thrown
  }
}

/** Runs a call under its deadline; every failure is a BerthError. */
export const within = async <Result>(
  connection: Connection,
  { signal, deadlineMs = connection.deadlineMs }: CallOptions,
  run: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> => {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), deadlineMs)
  try {
    return await run(AbortSignal.any([late.signal, ...(signal ? [signal] : [])]))
  } catch (cause) {
    if (cause instanceof BerthError) throw cause
    const { url } = connection
    if (signal?.aborted) throw cancelled(cause)
    if (late.signal.aborted) {
      const message = `the server at ${url} did not answer within ${deadlineMs} ms`
      throw new BerthError("deadline.exceeded", message, { details: { url, deadlineMs }, cause })
    }
    throw new BerthError("server.unreachable", `the server at ${url} cannot be reached`, {
      details: { url, ...reasonOf(cause) },
      cause,
    })
  } finally {
    clearTimeout(timer)
  }
}

/** Sends a request. Throws the error that the server answered with. */
const exchange = async (
  { find, fetch }: Connection,
  { method = "GET", path, json, body, headers }: Ask,
  signal: AbortSignal,
): Promise<Response> => {
  const { url, token } = await find(signal)
  const sent = json === undefined ? body : JSON.stringify(json)
  const reply = await fetch(new URL(path, url), {
    method,
    signal,
    headers: {
      ...authorizationOf(token),
      ...(json !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(sent !== undefined && { body: sent as NonNullable<RequestInit["body"]> }),
    // A streamed request needs half duplex: nothing is received while it is sent.
    ...(sent instanceof ReadableStream && { duplex: "half" }),
    // The server never redirects, and the token must not follow a redirect.
    redirect: "error",
  })
  if (!reply.ok) throw errorOfReply(url, reply.status, await errorText(reply))
  return reply
}

const authorizationOf = (token: string | undefined): Readonly<Record<string, string>> => {
  if (token === undefined) return {}
  // `fetch` would refuse the header with an error that shows it.
  if (!/^[\x20-\x7e]*$/.test(token.trim()))
    throw new BerthError("input.invalid", "the API token holds a character that no token has", {
      details: { path: "token" },
    })
  return { authorization: `Bearer ${token}` }
}

/** The text of an error reply; empty if it is too long to be Berth's. */
const errorText = (reply: Response): Promise<string> =>
  boundedText(reply, MAX_ERROR_BYTES).catch((thrown) => {
    if (thrown instanceof BerthError) return ""
    throw thrown
  })

/** The system's error code. Node's fetch has it in the cause, a stream that is sent over `node:http` in the error. */
const reasonOf = (thrown: unknown): { reason?: string } => {
  const cause = thrown instanceof Error ? (thrown.cause ?? thrown) : undefined
  return cause instanceof Error && "code" in cause ? { reason: String(cause.code) } : {}
}

export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
