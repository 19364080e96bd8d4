import { CreateSandbox, MAX_WAIT_MS, type SandboxView } from "@berth/protocol/sandboxes"
import type { FastifyInstance } from "fastify"
import { z } from "zod"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { parseInput, sandboxIdOf } from "../parse.ts"
import { untilGone } from "../until-gone.ts"

/** The first one waits for the toolbox to be built, which reads and writes some hundred megabytes. */
const CREATE_DEADLINE_MS = 300_000

/** The grace that a sandbox has to end in order, and what its backend may take on top. */
const REMOVE_DEADLINE_MS = 60_000

interface OfSandbox {
  Params: { id: string }
}

const GetQuery = z.object({ wait: z.coerce.number().int().min(0).max(MAX_WAIT_MS).default(0) })

const RemoveQuery = z.object({ force: z.stringbool().default(false) })

/** Sandboxes, once their backend is open: what `provide` throws is the answer. */
export const sandboxRoutes = (api: FastifyInstance, provide: () => Promise<Sandboxes>): void => {
  api.post("/v1/sandboxes", { handlerTimeout: CREATE_DEADLINE_MS }, async (request, reply) => {
    const { workspace, mode } = parseInput(request.body, CreateSandbox)
    const signal = untilGone(reply.raw)
    const sandboxes = await provide()
    const { sandbox, made } = await sandboxes.up(workspace, mode, signal)
    reply.code(made ? 201 : 200).header("location", `/v1/sandboxes/${sandbox}`)
    return await sandboxes.get(sandbox, signal)
  })

  api.get("/v1/sandboxes", async (_request, reply) => {
    const sandboxes = await provide()
    return { sandboxes: await sandboxes.list(untilGone(reply.raw)) }
  })

  api.get<OfSandbox>("/v1/sandboxes/:id", async (request, reply): Promise<SandboxView> => {
    const id = sandboxIdOf(request.params.id)
    const { wait } = parseInput(request.query, GetQuery)
    const signal = untilGone(reply.raw)
    const sandboxes = await provide()
    if (wait > 0) await sandboxes.booted(id, AbortSignal.any([signal, AbortSignal.timeout(wait)]))
    return await sandboxes.get(id, signal)
  })

  api.get<OfSandbox>("/v1/sandboxes/:id/boot", async (request, reply) => {
    const id = sandboxIdOf(request.params.id)
    return await (await provide()).trace(id, untilGone(reply.raw))
  })

  api.delete<OfSandbox>(
    "/v1/sandboxes/:id",
    { handlerTimeout: REMOVE_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const { force } = parseInput(request.query, RemoveQuery)
      await (await provide()).remove(id, { force })
      return await reply.code(204).send()
    },
  )
}
