import {
  CreateSandbox,
  MAX_WAIT_MS,
  type SandboxView,
  StopSandbox,
} from "@berth/protocol/sandboxes"
import type { FastifyInstance, FastifyReply } from "fastify"
import { z } from "zod"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { parseInput, sandboxIdOf } from "../parse.ts"
import { untilGone } from "../until-gone.ts"

/** The first one waits for the toolbox to be built, which reads and writes some hundred megabytes. */
const CREATE_DEADLINE_MS = 300_000

/** The grace that a sandbox has to end in order, and what its backend may take on top. */
const END_DEADLINE_MS = 60_000

export interface OfSandbox {
  Params: { id: string }
}

const WaitQuery = z.object({ wait: z.coerce.number().int().min(0).max(MAX_WAIT_MS).optional() })

const RemoveQuery = z.object({ force: z.stringbool().default(false) })

/** Sandboxes, once their backend is open: what `provide` throws is the answer. */
export const sandboxRoutes = (api: FastifyInstance, provide: () => Promise<Sandboxes>): void => {
  api.post("/v1/sandboxes", { handlerTimeout: CREATE_DEADLINE_MS }, async (request, reply) => {
    const { workspace, mode } = parseInput(request.body, CreateSandbox)
    const { wait } = parseInput(request.query, WaitQuery)
    const signal = untilGone(reply.raw)
    const sandboxes = await provide()
    const options = { mode, ...(wait !== undefined && { waitMs: wait }) }
    const ensured = await sandboxes.up(workspace, options, signal)
    return await created(reply, ensured, await sandboxes.get(ensured.sandbox, signal))
  })

  api.get("/v1/sandboxes", async (_request, reply) => {
    const sandboxes = await provide()
    return { sandboxes: await sandboxes.list(untilGone(reply.raw)) }
  })

  api.get<OfSandbox>("/v1/sandboxes/:id", async (request, reply): Promise<SandboxView> => {
    const id = sandboxIdOf(request.params.id)
    const { wait = 0 } = parseInput(request.query, WaitQuery)
    const signal = untilGone(reply.raw)
    const sandboxes = await provide()
    if (wait > 0) await sandboxes.booted(id, AbortSignal.any([signal, AbortSignal.timeout(wait)]))
    return await sandboxes.get(id, signal)
  })

  api.get<OfSandbox>("/v1/sandboxes/:id/boot", async (request, reply) => {
    const id = sandboxIdOf(request.params.id)
    return await (await provide()).trace(id, untilGone(reply.raw))
  })

  api.get<OfSandbox>("/v1/sandboxes/:id/why", async (request) => {
    const id = sandboxIdOf(request.params.id)
    return await (await provide()).why(id)
  })

  api.post<OfSandbox>(
    "/v1/sandboxes/:id/adopt",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const sandboxes = await provide()
      await sandboxes.adoptQuarantined(id)
      return await sandboxes.get(id, untilGone(reply.raw))
    },
  )

  api.post<OfSandbox>(
    "/v1/sandboxes/:id/make-room",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const sandboxes = await provide()
      await sandboxes.makeRoom(id)
      return await sandboxes.get(id, untilGone(reply.raw))
    },
  )

  api.post<OfSandbox>(
    "/v1/sandboxes/:id/stop",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const options = parseInput(request.body ?? {}, StopSandbox)
      await (await provide()).stop(id, options)
      return await reply.code(204).send()
    },
  )

  api.delete<OfSandbox>(
    "/v1/sandboxes/:id",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const options = parseInput(request.query, RemoveQuery)
      await (await provide()).remove(id, options)
      return await reply.code(204).send()
    },
  )
}

const created = async (
  reply: FastifyReply,
  { made }: { readonly made: boolean },
  view: SandboxView,
): Promise<FastifyReply> => {
  reply.code(made ? 201 : 200).header("location", `/v1/sandboxes/${view.identity.sandbox}`)
  return await reply.send(view)
}
