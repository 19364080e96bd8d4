import { timeoutSignal } from "@berth/host/timeout-signal"
import {
  CreateSandbox,
  MAX_WAIT_MS,
  SANDBOX_HEADER,
  type SandboxView,
  StopSandbox,
} from "@berth/protocol/sandboxes"
import type { FastifyInstance, FastifyReply } from "fastify"
import { z } from "zod"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { parseInput, sandboxIdOf } from "../parse.ts"
import { untilGone } from "../until-gone.ts"

/** The first creation waits for the toolbox to be built, which reads and writes some hundred megabytes. */
export const CREATE_DEADLINE_MS = 300_000

/** The grace period of a sandbox, and the time that its backend may take on top. */
const END_DEADLINE_MS = 60_000

export interface OfSandbox {
  Params: { id: string }
}

const WaitQuery = z.object({ wait: z.coerce.number().int().min(0).max(MAX_WAIT_MS).optional() })

export const RemoveQuery = z.object({ force: z.stringbool().default(false) })

const NameQuery = z.object({
  quarantined: z.stringbool().default(false),
  start: z.stringbool().default(false),
})

type Provide = () => Promise<
  Pick<Sandboxes, "names" | "requests" | "running" | "views" | "workspaces">
>

/** The routes of sandboxes. If their backend is not open, the error that `provide` throws is the answer. */
export const sandboxRoutes = (api: FastifyInstance, provide: Provide): void => {
  makingRoutes(api, provide)
  readingRoutes(api, provide)
  keepingRoutes(api, provide)
  endingRoutes(api, provide)
}

/** The calls that give a sandbox: the current one of a workspace, or the one of a name. */
const makingRoutes = (api: FastifyInstance, provide: Provide): void => {
  api.post("/v1/sandboxes", { handlerTimeout: CREATE_DEADLINE_MS }, async (request, reply) => {
    const { workspace, mode, replace, retry } = parseInput(request.body, CreateSandbox)
    const { wait } = parseInput(request.query, WaitQuery)
    const signal = untilGone(reply.raw)
    const sandboxes = await provide()
    const options = { mode, replace, retry, ...(wait !== undefined && { waitMs: wait }) }
    const ensured = await sandboxes.workspaces.up(workspace, options, signal)
    return await created(reply, ensured, await sandboxes.views.get(ensured.sandbox, signal))
  })

  api.get<{ Params: { name: string } }>(
    "/v1/names/:name",
    { handlerTimeout: CREATE_DEADLINE_MS },
    async ({ params, query }, reply) => {
      const options = parseInput(query, NameQuery)
      return await (await provide()).names.named(params.name, options, untilGone(reply.raw))
    },
  )
}

const readingRoutes = (api: FastifyInstance, provide: Provide): void => {
  api.get("/v1/sandboxes", async (_request, reply) => {
    const sandboxes = await provide()
    return { sandboxes: await sandboxes.views.list(untilGone(reply.raw)) }
  })

  api.get<OfSandbox>("/v1/sandboxes/:id", async (request, reply): Promise<SandboxView> => {
    const id = sandboxIdOf(request.params.id)
    const { wait = 0 } = parseInput(request.query, WaitQuery)
    const signal = untilGone(reply.raw)
    const sandboxes = await provide()
    if (wait > 0) await sandboxes.running.booted(id, AbortSignal.any([signal, timeoutSignal(wait)]))
    const view = await sandboxes.views.get(id, signal)
    reply.header(SANDBOX_HEADER, view.identity.sandbox)
    return view
  })

  api.get<OfSandbox>("/v1/sandboxes/:id/boot", async (request, reply) => {
    const id = sandboxIdOf(request.params.id)
    const sandboxes = await provide()
    const sandbox = await sandboxes.names.current(id)
    reply.header(SANDBOX_HEADER, sandbox)
    return await sandboxes.views.trace(sandbox, untilGone(reply.raw))
  })

  api.get<OfSandbox>("/v1/sandboxes/:id/why", async (request, reply) => {
    const id = sandboxIdOf(request.params.id)
    const why = await (await provide()).views.why(id)
    reply.header(SANDBOX_HEADER, why.sandbox)
    return why
  })
}

/** The calls that bring the files of a quarantined sandbox back, and those of a halted one within reach. */
const keepingRoutes = (api: FastifyInstance, provide: Provide): void => {
  api.post<OfSandbox>(
    "/v1/sandboxes/:id/recover",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const sandboxes = await provide()
      await sandboxes.requests.recover(id)
      return await sandboxes.views.get(id, untilGone(reply.raw))
    },
  )

  api.post<OfSandbox>(
    "/v1/sandboxes/:id/make-room",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const sandboxes = await provide()
      await sandboxes.requests.makeRoom(id)
      return await sandboxes.views.get(id, untilGone(reply.raw))
    },
  )
}

const endingRoutes = (api: FastifyInstance, provide: Provide): void => {
  api.post<OfSandbox>(
    "/v1/sandboxes/:id/stop",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const options = parseInput(request.body ?? {}, StopSandbox)
      const stopped = await (await provide()).requests.stop(id, options)
      return await reply.code(204).header(SANDBOX_HEADER, stopped).send()
    },
  )

  api.delete<OfSandbox>(
    "/v1/sandboxes/:id",
    { handlerTimeout: END_DEADLINE_MS },
    async (request, reply) => {
      const id = sandboxIdOf(request.params.id)
      const options = parseInput(request.query, RemoveQuery)
      const removed = await (await provide()).requests.remove(id, options)
      return await reply.code(204).header(SANDBOX_HEADER, removed).send()
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
