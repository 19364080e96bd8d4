import { setTimeout as delay } from "node:timers/promises"
import type { FastifyInstance } from "fastify"

/**
 * Stops to listen and lets running requests end, for as long as the grace lasts; then their
 * connections are cut. Says whether all ended by themselves.
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
