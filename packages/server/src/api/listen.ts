import type { AddressInfo } from "node:net"
import type { Config } from "@berth/local/config/schema"
import { BerthError } from "@berth/protocol/errors"
import type { FastifyInstance } from "fastify"

/** Starts to listen and returns the address that clients use. */
export const listen = async (
  api: FastifyInstance,
  { host, port }: Pick<Config, "host" | "port">,
): Promise<string> => {
  // The name could resolve to anything; the address cannot.
  const address = host === "localhost" ? "127.0.0.1" : host
  try {
    await api.listen({ host: address, port })
  } catch (cause) {
    throw listenError(cause, address, port)
  }
  const bound = api.server.address() as AddressInfo
  return `http://${address.includes(":") ? `[${address}]` : address}:${bound.port}`
}

const listenError = (cause: unknown, host: string, port: number): BerthError => {
  const { code: errno } = cause as NodeJS.ErrnoException
  const details = { host, port }
  if (errno === "EADDRINUSE") {
    const message = `port ${port} of ${host} is in use by another program`
    return new BerthError("server.port_in_use", message, { details, cause })
  }
  return new BerthError("server.listen_failed", `cannot listen on port ${port} of ${host}`, {
    details: { ...details, errno },
    cause,
  })
}
