import { BerthError } from "@berth/protocol/errors"
import type { FastifyRequest } from "fastify"

/**
 * Refuses host names that are not of this machine. A web page can make its own host name resolve to 127.0.0.1 and then
 * talk to this server as its own origin, but its requests still carry that name.
 */
export const requireLocalName = async (request: FastifyRequest): Promise<void> => {
  if (isLocalName(request.headers.host)) return
  throw new BerthError("auth.host_refused", "the request names a host that is not this machine")
}

/** Any port is accepted: a forwarded one differs from ours. */
export const isLocalName = (host: string | undefined): boolean =>
  host !== undefined && /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i.test(host)

/**
 * Whether a page of this origin may connect: a WebSocket is open to every page, so only pages of this machine may.
 * Programs name no origin.
 */
export const isLocalOrigin = (origin: string | undefined): boolean =>
  origin === undefined || isLocalName(/^https?:\/\/([^/]*)$/.exec(origin)?.[1])
