import { performance } from "node:perf_hooks"
import type { Health, ServerStatus } from "@berth/protocol/health"
import type { FastifyInstance } from "fastify"

/** The facts that are fixed for a server's life. */
export interface Facts extends Omit<ServerStatus, "uptimeMs" | "startedAt"> {
  readonly startedAt: Date
  /** A moment of the monotonic clock, so that a changed wall clock changes no uptime. */
  readonly startedAtMs: number
}

export const healthOf = ({ version, pid, startedAtMs }: Facts): Health => ({
  version,
  pid,
  uptimeMs: Math.round(performance.now() - startedAtMs),
})

/**
 * The health of the server. The route is open to everyone on this machine, so it tells no more than a process list
 * does.
 */
export const healthRoute = (api: FastifyInstance, facts: Facts): void => {
  api.get("/v1/health", { config: { open: true } }, async () => healthOf(facts))
}
