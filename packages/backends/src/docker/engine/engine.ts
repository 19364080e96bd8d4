import type { IncomingMessage } from "node:http"
import { z } from "zod"
import type { EngineAddress } from "./address.ts"
import { connectTo, type Dial, type Request } from "./connection.ts"
import { garbled, refused, unanswered } from "./failures.ts"
import { type EngineVersion, negotiate } from "./version.ts"

/** The engine's answer to one request, with one of the statuses that the caller asked for. */
export interface Answer {
  readonly status: number
  readonly body: Buffer
  /** The engine's own words, in an answer that is no success. */
  readonly said: string
}

export interface Engine {
  readonly address: EngineAddress
  readonly version: EngineVersion
  /**
   * Sends a request and returns an answer with one of the statuses. Any other status is an error with the engine's
   * words.
   */
  ask(request: Request, statuses: readonly number[], signal: AbortSignal): Promise<Answer>
  /** Sends a request and parses the answer, which must be a 200 or 201. */
  read<Schema extends z.ZodType>(
    request: Request,
    schema: Schema,
    signal: AbortSignal,
  ): Promise<z.output<Schema>>
  /** Sends a request whose answer is a stream; the caller reads its body. */
  follow(request: Request, signal: AbortSignal): Promise<IncomingMessage>
  /** Negotiates the API version again: another version of the engine may run after a restart. */
  renew(signal: AbortSignal): Promise<void>
}

/** Larger than a list of thousands of containers. */
const MAX_ANSWER_BYTES = 32 * 1024 * 1024
const MAX_WORDS = 2_000

export const openEngine = async (address: EngineAddress, signal: AbortSignal): Promise<Engine> => {
  let version = await askVersion(address, signal)
  let dial = await connectTo(address, version.api)

  const engine: Engine = {
    address,
    get version() {
      return version
    },
    ask: async (request, statuses, within) => {
      const answer = await exchange(dial, address, request, within)
      if (!statuses.includes(answer.status)) throw refused(request, answer.status, answer.said)
      return answer
    },
    read: async (request, schema, within) =>
      parseAnswer(request, await engine.ask(request, [200, 201], within), schema),
    follow: async (request, within) => {
      const answer = await begin(dial, address, request, within)
      if (answer.statusCode === 200) return answer
      const { status, said } = await finish(answer, address, request, within)
      throw refused(request, status, said)
    },
    renew: async (within) => {
      version = await askVersion(address, within)
      dial = await connectTo(address, version.api)
    },
  }
  return engine
}

const askVersion = async (address: EngineAddress, signal: AbortSignal): Promise<EngineVersion> => {
  const request: Request = { method: "GET", path: "/version" }
  const dial = await connectTo(address)
  const answer = await exchange(dial, address, request, signal)
  if (answer.status !== 200) throw refused(request, answer.status, answer.said)
  return negotiate(parseAnswer(request, answer, VersionAnswer))
}

const VersionAnswer = z.object({
  Version: z.string(),
  ApiVersion: z.string(),
  MinAPIVersion: z.string().optional(),
})

export const parseAnswer = <Schema extends z.ZodType>(
  request: Request,
  { body }: Answer,
  schema: Schema,
): z.output<Schema> => {
  const text = body.toString("utf8")
  try {
    return schema.parse(JSON.parse(text))
  } catch (cause) {
    throw garbled(request, text.slice(0, MAX_WORDS), cause)
  }
}

const exchange = async (
  dial: Dial,
  address: EngineAddress,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> => finish(await begin(dial, address, request, signal), address, request, signal)

const begin = async (
  dial: Dial,
  address: EngineAddress,
  request: Request,
  signal: AbortSignal,
): Promise<IncomingMessage> => {
  signal.throwIfAborted()
  try {
    return await dial(request, signal)
  } catch (thrown) {
    signal.throwIfAborted()
    throw unanswered(thrown, address, request)
  }
}

const finish = async (
  answer: IncomingMessage,
  address: EngineAddress,
  request: Request,
  signal: AbortSignal,
): Promise<Answer> => {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of answer) {
      bytes += (chunk as Buffer).length
      if (bytes > MAX_ANSWER_BYTES) throw garbled(request, `more than ${MAX_ANSWER_BYTES} bytes`)
      chunks.push(chunk as Buffer)
    }
  } catch (thrown) {
    signal.throwIfAborted()
    throw unanswered(thrown, address, request)
  }
  const body = Buffer.concat(chunks)
  const status = answer.statusCode ?? 0
  return { status, body, said: status < 300 ? "" : wordsOf(body, status) }
}

const Words = z.object({ message: z.string() })

/** Engines put their words into `message`; a proxy in between may send anything. */
const wordsOf = (body: Buffer, status: number): string => {
  const text = body.subarray(0, MAX_WORDS).toString("utf8")
  try {
    return Words.parse(JSON.parse(body.toString("utf8"))).message
  } catch {
    return text.trim() || `status ${status}`
  }
}
