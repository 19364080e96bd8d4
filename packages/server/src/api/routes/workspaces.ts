import { BerthError } from "@berth/protocol/errors"
import { Slug } from "@berth/protocol/ids"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { FastifyInstance } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"

export const workspaceRoute = (api: FastifyInstance, provide: () => Promise<Sandboxes>): void => {
  api.get<{ Params: { slug: string } }>(
    "/v1/workspaces/:slug",
    async ({ params }): Promise<WorkspaceSpec> => {
      const slug = Slug.safeParse(params.slug)
      if (!slug.success) throw new BerthError("not_found", "there is no such workspace")
      return await (await provide()).workspace(slug.data)
    },
  )
}
