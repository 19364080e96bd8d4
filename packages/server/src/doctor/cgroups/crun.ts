import { readFile } from "node:fs/promises"
import { join } from "node:path"
import type { CgroupMounts } from "../../host/cgroups/mounts.ts"

/** Whether crun can set limits here: it refuses a hybrid host whose v2 hierarchy has any controller. */
export const crunManagesCgroups = (mode: CgroupMounts["mode"], v2Controllers: string): boolean =>
  mode !== "hybrid" || v2Controllers.trim() === ""

/** The controllers that the v2 hierarchy offers; none where it is not mounted or cannot be read. */
export const readV2Controllers = async ({ v2 }: CgroupMounts): Promise<string> => {
  if (v2 === undefined) return ""
  try {
    return await readFile(join(v2, "cgroup.controllers"), "utf8")
  } catch {
    return ""
  }
}
