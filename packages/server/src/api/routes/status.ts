import type { ServerStatus } from "@berth/protocol/health"
import type { FastifyInstance } from "fastify"
import { type Facts, healthOf } from "./health.ts"

export const statusRoute = (api: FastifyInstance, facts: Facts): void => {
  api.get(
    "/v1/status",
    async (): Promise<ServerStatus> => ({
      ...healthOf(facts),
      startedAt: facts.startedAt.toISOString(),
      installationId: facts.installationId,
      dataDir: facts.dataDir,
      backend: facts.backend,
    }),
  )
}
