import type { IncomingMessage, ServerResponse } from "node:http"
import { finished } from "node:stream/promises"
import { BerthError, toWireError } from "@berth/protocol/errors"
import type { WebSocket } from "ws"
import type { Called, Feature, Features, HttpRoute } from "./feature.ts"
import { matchPath } from "./match-path.ts"

/** Passes a call to its feature, which is loaded with the first call. */
export class Dispatch {
  readonly #features: Features
  readonly #loaded = new Map<string, Promise<Feature>>()
  readonly #down = new AbortController()
  #closed: Promise<void> | undefined

  constructor(features: Features) {
    this.#features = features
  }

  /** Whether calls to this path are for a feature. */
  has(url: string): boolean {
    return Object.hasOwn(this.#features, featureOf(url))
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController()
    const onClose = () => gone.abort(callerGone())
    response.once("close", onClose)
    try {
      const { path, query } = split(request.url ?? "/")
      const feature = await this.#load(path)
      const { route, params } = find(feature.http, request.method, path)
      const signal = AbortSignal.any([gone.signal, this.#down.signal])
      await route.handle({ request, response, params, query, signal })
    } catch (thrown) {
      await fail(request, response, thrown)
    }
  }

  /** Returns the function that takes the connection of an upgrade request. */
  async open(url: string): Promise<(websocket: WebSocket) => void> {
    const { path, query } = split(url)
    const feature = await this.#load(path)
    for (const route of feature.sockets) {
      const params = matchPath(route.path, path)
      if (params !== undefined) return await this.#connect(route.open, { params, query })
    }
    throw unknown("a WebSocket", path)
  }

  /** Closes all features. A second call waits for the same end. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    this.#down.abort(new BerthError("cancelled", "the sandbox is going down"))
    await Promise.allSettled(
      [...this.#loaded.values()].map(async (feature) => (await feature).close()),
    )
  }

  async #connect(
    open: (call: Called) => Promise<(websocket: WebSocket) => void>,
    { params, query }: Pick<Called, "params" | "query">,
  ): Promise<(websocket: WebSocket) => void> {
    const gone = new AbortController()
    const signal = AbortSignal.any([gone.signal, this.#down.signal])
    const take = await open({ params, query, signal })
    return (websocket) => {
      websocket.on("error", () => {})
      websocket.once("close", () => gone.abort(callerGone()))
      take(websocket)
    }
  }

  #load(path: string): Promise<Feature> {
    const name = featureOf(path)
    const load = this.#features[name]
    if (load === undefined || this.#closed !== undefined) throw unknown("anything", path)
    const loading = this.#loaded.get(name) ?? load()
    this.#loaded.set(name, loading)
    // A load that failed is tried again with the next call.
    loading.catch(() => this.#loaded.delete(name))
    return loading
  }
}

const featureOf = (url: string): string => /^\/([a-z-]+)(?=[/?]|$)/.exec(url)?.[1] ?? ""

const split = (url: string): { path: string; query: URLSearchParams } => {
  const end = url.indexOf("?")
  return end === -1
    ? { path: url, query: new URLSearchParams() }
    : { path: url.slice(0, end), query: new URLSearchParams(url.slice(end + 1)) }
}

const find = (routes: readonly HttpRoute[], method: string | undefined, path: string) => {
  for (const route of routes) {
    const params = route.method === method ? matchPath(route.path, path) : undefined
    if (params !== undefined) return { route, params }
  }
  throw unknown(method ?? "", path)
}

/**
 * Sends an error. An answer that has begun can only be cut off. Otherwise the rest of the body is read first: a client
 * that is still sending does not listen, and closing the connection earlier could lose the answer.
 */
const fail = async (
  request: IncomingMessage,
  response: ServerResponse,
  thrown: unknown,
): Promise<void> => {
  if (response.headersSent) {
    response.destroy()
    return
  }
  if (!request.readableEnded && !request.destroyed) {
    request.resume()
    await finished(request, { writable: false }).catch(() => {})
  }
  const status = thrown instanceof BerthError ? thrown.status : 500
  response
    .writeHead(status, { "content-type": "application/json", connection: "close" })
    .end(JSON.stringify(toWireError(thrown)))
}

const callerGone = (): BerthError => new BerthError("cancelled", "whoever called is gone")

const unknown = (method: string, path: string): BerthError =>
  new BerthError("route.unknown", `there is no ${method} ${path}`)
