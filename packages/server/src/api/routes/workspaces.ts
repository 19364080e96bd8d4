import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { FastifyInstance } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { workspaceOf } from "../parse.ts"

export interface OfWorkspace {
  Params: { slug: string }
}

/** On a busy disk, the files of a large workspace are moved away in this time. */
const REMOVE_DEADLINE_MS = 60_000

export const workspaceRoute = (
  api: FastifyInstance,
  provide: () => Promise<Pick<Sandboxes, "workspaces">>,
): void => {
  api.get<OfWorkspace>("/v1/workspaces/:slug", async ({ params }): Promise<WorkspaceSpec> => {
    const workspace = workspaceOf(params.slug)
    return await (await provide()).workspaces.get(workspace)
  })
  api.delete<OfWorkspace>(
    "/v1/workspaces/:slug",
    { handlerTimeout: REMOVE_DEADLINE_MS },
    async ({ params }, reply) => {
      await (await provide()).workspaces.remove(workspaceOf(params.slug))
      return await reply.code(204).send()
    },
  )
}
