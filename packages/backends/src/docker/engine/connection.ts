import { Agent, type IncomingMessage } from "node:http"
import type { Readable } from "node:stream"
import { inspect } from "node:util"
import type Docker from "dockerode"
import type { EngineAddress } from "./address.ts"

/** One request as the engine's API names it. */
export interface Request {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE"
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | object>>
  readonly body?: object
  /** An archive that is sent in place of a body. */
  readonly file?: Buffer | Readable
}

/** Sends a request to the engine. Resolves with the answer's head, its body still to be read, whatever its status. */
export type Dial = (request: Request, signal: AbortSignal) => Promise<IncomingMessage>

/** Treats no status as an error: the caller judges statuses together with the body. */
const EVERY_STATUS = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [at + 100, true]))

/**
 * Node's `http.Agent`, which opens connections, with a short text form. For a debug log that nobody reads, the client
 * (dockerode) writes each request as text with its agent and everything that all running requests hold, which takes
 * longer than the engine does.
 */
class QuietAgent extends Agent {
  [inspect.custom](): string {
    return "Agent"
  }
}

/**
 * Loads the client of an engine's API, and returns what sends requests with it. Each request has a connection of its
 * own: a kept one may lead to an engine that has ended since, and a new one costs a tenth of a millisecond.
 */
export const connectTo = async (address: EngineAddress, version?: string): Promise<Dial> => {
  // The client is loaded with the first engine, so that a server without one does not pay for it.
  const { default: Engine } = await import("dockerode")
  const agent = new QuietAgent({ keepAlive: false })
  const options = { ...NOTHING_ASSUMED, ...address, agent, version }
  const docker: Docker = new Engine(options)
  return (request, signal) =>
    new Promise((resolve, reject) => {
      const settle = (failure: Error | null, answer: IncomingMessage) =>
        failure === null ? resolve(answer) : reject(failure)
      docker.modem.dial(
        {
          method: request.method,
          path: `${request.path}?`,
          options: { _query: request.query ?? {}, _body: request.body ?? {} },
          ...(request.file && { file: request.file }),
          abortSignal: signal,
          // Berth reads the body itself, under limits, and notices a truncated one.
          isStream: true,
          statusCodes: EVERY_STATUS,
        },
        settle as never,
      )
    })
}

/** Keeps the client from reading $DOCKER_HOST and its like: only the composition root reads the environment. */
const NOTHING_ASSUMED = {
  protocol: "http",
  host: undefined,
  port: undefined,
  socketPath: undefined,
  timeout: undefined,
  ca: undefined,
  cert: undefined,
  key: undefined,
} as const
