import type { Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { MAX_HOST_CONNECTIONS } from "@berth/protocol/port-limits"
import type { Logger } from "../logging/logger.ts"
import { operation } from "../logging/operation.ts"
import { dialHost } from "./dial.ts"
import { join } from "./join.ts"

export interface HostPortsOptions {
  readonly sandbox: SandboxId
  /** Ports that the sandbox's workspace names. */
  readonly ports: readonly number[]
  /** The port on which this server itself listens. */
  readonly apiPort: number | undefined
  readonly log: Logger
}

/** The connections of one sandbox to ports of the host. */
export class HostPorts {
  readonly #options: HostPortsOptions
  /**
   * Both ends of each connection: a sandbox that does not read keeps its end, with its buffers, after the host's is
   * over.
   */
  readonly #open = new Set<Socket>()
  #isClosed = false

  constructor(options: HostPortsOptions) {
    this.#options = options
  }

  /**
   * Connects a port with a tunnel to the sandbox, and passes bytes between the two. Each connection is a line in the
   * log.
   */
  connect(port: number, openTunnel: () => Promise<Socket>, signal: AbortSignal): Promise<void> {
    const { sandbox, ports, apiPort, log } = this.#options
    return operation(log, "host-port.connect", { sandbox, port }, async () => {
      if (!ports.includes(port)) throw notNamed(port)
      refuseApiPort([port], apiPort)
      if (this.#isClosed) throw new BerthError("cancelled", "the sandbox was let go of")
      if (this.#open.size >= 2 * MAX_HOST_CONNECTIONS) throw tooMany()
      const host = await dialHost(port, signal)
      this.#track(host)
      try {
        const tunnel = await openTunnel()
        this.#track(tunnel)
        join(host, tunnel)
      } catch (thrown) {
        host.destroy()
        throw thrown
      }
      if (this.#isClosed) this.close()
    })
  }

  /** Breaks off every connection. Idempotent. */
  close(): void {
    this.#isClosed = true
    for (const socket of this.#open) socket.destroy()
  }

  #track(socket: Socket): void {
    this.#open.add(socket)
    socket.once("close", () => this.#open.delete(socket))
  }
}

/** Refuses the port of the API: a sandbox that reached it would be one stolen token away from everything. */
export const refuseApiPort = (ports: readonly number[], apiPort: number | undefined): void => {
  if (apiPort === undefined || !ports.includes(apiPort)) return
  throw new BerthError(
    "host_port.refused",
    `port ${apiPort} of the host is where this server listens, which no sandbox reaches`,
    { details: { port: apiPort } },
  )
}

const notNamed = (port: number): BerthError =>
  new BerthError("host_port.refused", `the workspace does not name port ${port} of the host`, {
    details: { port },
  })

const tooMany = (): BerthError =>
  new BerthError("ports.too_many", "the sandbox has too many connections to ports of the host", {
    details: { limit: MAX_HOST_CONNECTIONS },
  })
