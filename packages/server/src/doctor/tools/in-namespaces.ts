import { findTool } from "@berth/host/find-tool"
import type { DoctorFinding } from "@berth/protocol/doctor"
import type { DoctorHost } from "./check.ts"
import { fixForMissing } from "./install.ts"

/** The tools for a trial in namespaces of its own, or the finding that it cannot be run. */
export type TrialTools =
  | { readonly unshare: string; readonly shell: string }
  | { readonly missing: DoctorFinding }

export const findTrialTools = async (host: DoctorHost): Promise<TrialTools> => {
  const unshare = await findTool("unshare", host.path)
  const shell = await findTool("sh", host.path)
  if (unshare !== undefined && shell !== undefined) return { unshare, shell }
  const fix = await fixForMissing(unshare === undefined ? "unshare" : "sh", "util-linux")
  const found = "no unshare and sh on the path to try one"
  return { missing: { status: "missing", found, fix, details: {} } }
}
