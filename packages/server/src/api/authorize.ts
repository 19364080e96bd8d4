import { createHash, timingSafeEqual } from "node:crypto"
import { BerthError } from "@berth/protocol/errors"
import type { FastifyReply, FastifyRequest } from "fastify"

declare module "fastify" {
  interface FastifyContextConfig {
    /** The route is answered without a token. */
    open?: boolean
  }
}

/** Guards every known route that is not marked open; unknown routes reveal nothing anyway. */
export const requireToken = (token: string) => {
  const check = tokenCheck(token)
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (request.is404 || request.routeOptions.config.open === true) return
    reply.header("www-authenticate", "Bearer")
    check(bearerOf(request.headers.authorization))
    reply.removeHeader("www-authenticate")
  }
}

/** Makes a check that throws unless it is given the token. */
export const tokenCheck = (token: string) => {
  const expected = digest(token)
  return (given: string | undefined): void => {
    if (given !== undefined && timingSafeEqual(digest(given), expected)) return
    throw new BerthError(
      "auth.required",
      given === undefined ? "this route needs the API token" : "the API token is not the right one",
    )
  }
}

export const bearerOf = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^bearer +(\S+)$/i.exec(header)?.[1]

/** Digests have the same length, which a comparison in constant time requires. */
const digest = (text: string): Buffer => createHash("sha256").update(text).digest()
