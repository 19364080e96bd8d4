import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { FastifyInstance } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { workspaceOf } from "../parse.ts"

export interface OfWorkspace {
  Params: { slug: string }
}

export const workspaceRoute = (api: FastifyInstance, provide: () => Promise<Sandboxes>): void => {
  api.get<OfWorkspace>("/v1/workspaces/:slug", async ({ params }): Promise<WorkspaceSpec> => {
    const workspace = workspaceOf(params.slug)
    return await (await provide()).workspace(workspace)
  })
}
