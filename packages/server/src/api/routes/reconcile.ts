import { Reconcile, type ReconcileReport } from "@berth/protocol/sandboxes"
import type { FastifyInstance } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { parseInput } from "../parse.ts"

/** Sandboxes that are stopped have their grace period, some at a time. */
const RECONCILE_DEADLINE_MS = 300_000

/** Looks at all sandboxes now. */
export const reconcileRoute = (
  api: FastifyInstance,
  provide: () => Promise<Pick<Sandboxes, "reconcile">>,
): void => {
  api.post(
    "/v1/reconcile",
    { handlerTimeout: RECONCILE_DEADLINE_MS },
    async (request): Promise<ReconcileReport> => {
      const options = parseInput(request.body ?? {}, Reconcile)
      return await (await provide()).reconcile(options)
    },
  )
}
