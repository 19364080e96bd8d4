import { createServer, type Server, type Socket } from "node:net"
import type { Duplex } from "node:stream"
import { toWireError } from "@berth/protocol/errors"
import { MAX_HOST_CONNECTIONS } from "@berth/protocol/port-limits"
import type { Clock } from "../processes/clock.ts"
import type { HostRequests } from "./host-requests.ts"
import { join } from "./join.ts"
import { listen } from "./listen.ts"

/** Limit of the connections that are asked for at a time. Others wait, so that other questions get through. */
const MAX_ASKING = 8

/** Interval of the warnings for a port, since a program that retries causes the same one each time. */
const WARN_EVERY_MS = 60_000

const LOOPBACK = "127.0.0.1"

export interface HostPortsOptions {
  readonly hostRequests: HostRequests
  readonly clock: Pick<Clock, "nowMs">
  readonly warn: (message: string) => void
}

/** Listens inside on ports of the host, and asks the server to carry each connection to the host's port. */
export class CarriedPorts {
  readonly #options: HostPortsOptions
  readonly #servers = new Set<Server>()
  readonly #clients = new Set<Socket>()
  readonly #waiting: (() => void)[] = []
  readonly #warnedAtMs = new Map<number, number>()
  #asking = 0

  constructor(options: HostPortsOptions) {
    this.#options = options
  }

  async listen(port: number): Promise<void> {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      void this.#carry(port, client)
    })
    server.maxConnections = MAX_HOST_CONNECTIONS
    await listen(server, { host: LOOPBACK, port })
    this.#servers.add(server)
  }

  /** Closes every connection. A second call is harmless. */
  close(): void {
    for (const server of this.#servers) server.close()
    for (const client of this.#clients) client.destroy()
  }

  async #carry(port: number, client: Socket): Promise<void> {
    const gone = new AbortController()
    client.on("error", () => {})
    client.once("close", () => {
      this.#clients.delete(client)
      gone.abort()
    })
    if (this.#clients.size >= MAX_HOST_CONNECTIONS) {
      client.destroy()
      return
    }
    this.#clients.add(client)
    try {
      await this.#inTurn(() => this.#ask(port, client, gone.signal))
    } catch (thrown) {
      client.destroy()
      if (!gone.signal.aborted) this.#warn(port, toWireError(thrown).message)
    }
  }

  async #ask(port: number, client: Socket, signal: AbortSignal): Promise<void> {
    let isCarried = false
    const onTunnel = (tunnel: Duplex) => {
      isCarried = true
      join(client, tunnel)
    }
    await this.#options.hostRequests.send({ kind: "host-port", port }, signal, { onTunnel })
    // The connection is handed over in the turn in which the question is answered.
    if (!isCarried) client.destroy()
  }

  async #inTurn(ask: () => Promise<void>): Promise<void> {
    if (this.#asking >= MAX_ASKING)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#asking++
    try {
      await ask()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#asking--
      else next()
    }
  }

  #warn(port: number, why: string): void {
    const nowMs = this.#options.clock.nowMs()
    const last = this.#warnedAtMs.get(port)
    if (last !== undefined && nowMs - last < WARN_EVERY_MS) return
    this.#warnedAtMs.set(port, nowMs)
    this.#options.warn(`port ${port} of the host is not reached: ${why}`)
  }
}
