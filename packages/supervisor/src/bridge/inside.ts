import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { BerthError, toWireError } from "@berth/protocol/errors"
import type { Dispatch } from "../features/dispatch.ts"
import type { HostRequests } from "./host-requests.ts"
import { refuse, reply } from "./reply.ts"
import type { Upgrades } from "./upgrades.ts"

export interface InsideParts {
  readonly upgrades: Upgrades
  /** Undefined: nothing is asked, and no bundle is accepted. */
  readonly hostRequests?: HostRequests | undefined
  /** The routes besides the bridge's own. */
  readonly features?: Dispatch | undefined
}

const BUNDLES = "/bundles/"
const HOST_PORTS = "/host-ports/"

/** The calls of the socket that need more of the supervisor than its state. */
export class Inside {
  readonly #parts: InsideParts

  constructor(parts: InsideParts) {
    this.#parts = parts
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = "" } = request
    const { features } = this.#parts
    if (method === "PUT" && url.startsWith(BUNDLES))
      await this.#receive(url.slice(BUNDLES.length), request, response)
    else if (features?.has(url)) await features.answer(request, response)
    else reply(response, 404)
  }

  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { url = "" } = request
    const { upgrades, features } = this.#parts
    if (url === "/bridge") await upgrades.accept(request, socket, head)
    else if (url.startsWith(HOST_PORTS))
      this.#acceptTunnel(url.slice(HOST_PORTS.length), socket, head)
    else if (features?.has(url)) await this.#upgradeTo(features, request, socket, head)
    else refuse(socket, "404 Not Found")
  }

  /** Closes all connections of the bridge, and waits for their end. */
  async close(): Promise<void> {
    await this.#parts.upgrades.close()
  }

  /** Receives a bundle. Answers 204 when it is written; the asker gets every other outcome. */
  async #receive(ask: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const isTaken = (await this.#parts.hostRequests?.receive(ask, request)) ?? false
      reply(response, isTaken ? 204 : 404)
    } catch (thrown) {
      reply(response, thrown instanceof BerthError ? thrown.status : 500)
    }
  }

  #acceptTunnel(ask: string, socket: Duplex, head: Buffer): void {
    const take = this.#parts.hostRequests?.takeTunnel(ask)
    if (take === undefined) {
      refuse(socket, "404 Not Found")
      return
    }
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: bytes\r\n\r\n",
    )
    if (head.length > 0) socket.unshift(head)
    take(socket)
  }

  /** Opens a WebSocket of a feature. A refusal is an ordinary answer with the reason. */
  async #upgradeTo(
    features: Dispatch,
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
  ): Promise<void> {
    let take: Awaited<ReturnType<Dispatch["open"]>>
    try {
      take = await features.open(request.url ?? "")
    } catch (thrown) {
      const status = thrown instanceof BerthError ? thrown.status : 500
      return refuse(socket, `${status} ${STATUS_CODES[status] ?? "Error"}`, toWireError(thrown))
    }
    take(await this.#parts.upgrades.upgrade(request, socket, head))
  }
}
