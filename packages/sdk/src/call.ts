import { BerthError } from "@berth/protocol/errors"
import { errorOfReply, notBerth } from "./reply-error.ts"

export interface Connection {
  readonly url: string
  readonly token: string | undefined
  readonly deadlineMs: number
  readonly fetch: typeof globalThis.fetch
}

export interface CallOptions {
  readonly signal?: AbortSignal
  readonly deadlineMs?: number
}

/** The form that a reply must have. */
interface ReplySchema<Reply> {
  safeParse(value: unknown): { success: true; data: Reply } | { success: false }
}

export const get = async <Reply>(
  connection: Connection,
  path: string,
  schema: ReplySchema<Reply>,
  { signal, deadlineMs = connection.deadlineMs }: CallOptions = {},
): Promise<Reply> => {
  const deadline = AbortSignal.timeout(deadlineMs)
  const { url } = connection
  let reply: Exchange
  try {
    reply = await exchange(
      connection,
      path,
      AbortSignal.any([deadline, ...(signal ? [signal] : [])]),
    )
  } catch (cause) {
    if (signal?.aborted) throw new BerthError("cancelled", "the call was cancelled", { cause })
    if (deadline.aborted) {
      const message = `the server at ${url} did not answer within ${deadlineMs} ms`
      throw new BerthError("deadline.exceeded", message, { details: { url, deadlineMs }, cause })
    }
    throw new BerthError("server.unreachable", `the server at ${url} cannot be reached`, {
      details: { url, ...reasonOf(cause) },
      cause,
    })
  }
  if (!reply.ok) throw errorOfReply(url, reply.status, reply.text)
  const parsed = schema.safeParse(parseJson(reply.text))
  if (!parsed.success) throw notBerth(url, reply.status)
  return parsed.data
}

interface Exchange {
  readonly ok: boolean
  readonly status: number
  readonly text: string
}

const exchange = async (
  { url, token, fetch }: Connection,
  path: string,
  signal: AbortSignal,
): Promise<Exchange> => {
  const reply = await fetch(new URL(path, url), {
    signal,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    // The server never redirects, and the token must not follow one.
    redirect: "error",
  })
  return { ok: reply.ok, status: reply.status, text: await reply.text() }
}

/** Node's fetch hides what the system said in the cause. */
const reasonOf = (thrown: unknown): { reason?: string } => {
  const cause = thrown instanceof Error ? thrown.cause : undefined
  return cause instanceof Error && "code" in cause ? { reason: String(cause.code) } : {}
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
