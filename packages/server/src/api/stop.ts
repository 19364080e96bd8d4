import { setTimeout as delay } from "node:timers/promises"
import type { FastifyInstance } from "fastify"

/**
 * Stops listening and lets running requests end within the grace period; then their connections are cut. Returns
 * whether all ended by themselves.
 */
export const stopApi = async (api: FastifyInstance, graceMs: number): Promise<boolean> => {
  const enough = new AbortController()
  const closed = api.close().then(() => true)
  const late = delay(graceMs, false, { signal: enough.signal }).catch(() => true)
  const graceful = await Promise.race([closed, late])
  enough.abort()
  if (!graceful) api.server.closeAllConnections()
  await closed
  return graceful
}
