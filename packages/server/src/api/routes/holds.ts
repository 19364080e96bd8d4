import { BerthError } from "@berth/protocol/errors"
import { LeaseId } from "@berth/protocol/ids"
import { HoldSandbox, SANDBOX_HEADER } from "@berth/protocol/sandboxes"
import type { FastifyInstance } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { parseInput, sandboxIdOf } from "../parse.ts"
import { untilGone } from "../until-gone.ts"
import { CREATE_DEADLINE_MS, type OfSandbox } from "./sandboxes.ts"

interface OfHold {
  Params: OfSandbox["Params"] & { lease: string }
}

/** The routes by which a person holds a sandbox. */
export const holdRoutes = (
  api: FastifyInstance,
  provide: () => Promise<Pick<Sandboxes, "requests">>,
): void => {
  api.post<OfSandbox>(
    "/v1/sandboxes/:id/holds",
    // A stopped sandbox boots first.
    { handlerTimeout: CREATE_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const hold = parseInput(request.body, HoldSandbox)
      const lease = await (await provide()).requests.hold(id, hold, untilGone(reply.raw))
      return await reply.code(201).header(SANDBOX_HEADER, lease.sandbox).send(lease)
    },
  )

  api.delete<OfHold>("/v1/sandboxes/:id/holds/:lease", async (request, reply) => {
    const id = sandboxIdOf(request.params.id)
    await (await provide()).requests.release(id, leaseIdOf(request.params.lease))
    return await reply.code(204).send()
  })
}

/** A text that cannot be an id names no lease. */
const leaseIdOf = (text: string): LeaseId => {
  const parsed = LeaseId.safeParse(text)
  if (parsed.success) return parsed.data
  throw new BerthError("not_found", "there is no such hold", {
    details: { lease: text.slice(0, 100) },
  })
}
