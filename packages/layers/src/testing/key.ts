import { Slug } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"

export const key = (workspace: string, name = "workspace"): StackKey => ({
  workspace: Slug.parse(workspace),
  name: Slug.parse(name),
})
