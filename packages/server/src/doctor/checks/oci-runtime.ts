import { readFile } from "node:fs/promises"
import type { DoctorFinding } from "@berth/protocol/doctor"
import { parseCgroupMounts } from "../../host/cgroups/mounts.ts"
import { crunManagesCgroups, readV2Controllers } from "../cgroups/crun.ts"
import type { Check } from "../check.ts"
import { fixForMissing } from "../tools/install.ts"
import { type ToolState, toolState } from "../tools/probe-tool.ts"

export const ociRuntime: Check = {
  name: "oci-runtime",
  why: "It starts embedded sandboxes: namespaces, capabilities, seccomp and limits as Docker has them, without a daemon.",
  probe: async (host, signal) => {
    const [crun, runc, mounts] = await Promise.all([
      toolState("crun", host, signal),
      toolState("runc", host, signal),
      readFile("/proc/self/mounts", "utf8").then(parseCgroupMounts),
    ])
    const crunSetsLimits = crunManagesCgroups(mounts.mode, await readV2Controllers(mounts))
    return judge({ crun, runc, crunSetsLimits, fix: (tool) => fixForMissing(tool, tool) })
  },
}

interface Seen {
  readonly crun: ToolState
  readonly runc: ToolState
  readonly crunSetsLimits: boolean
  readonly fix: (tool: "crun" | "runc") => Promise<string>
}

/** crun where it works, because it starts several times faster; runc where it does not. */
export const judge = async ({ crun, runc, crunSetsLimits, fix }: Seen): Promise<DoctorFinding> => {
  const crunWorks = crun.state === "runs"
  const runcWorks = runc.state === "runs"
  const note = crunWorks && !crunSetsLimits ? " (cannot set limits on this hybrid cgroup host)" : ""
  const found = [say("crun", crun) + note, say("runc", runc)].join("; ")
  const details = {
    ...(crunWorks ? { crun: crun.version } : {}),
    ...(runcWorks ? { runc: runc.version } : {}),
  }
  if (crunWorks && crunSetsLimits) {
    return { status: "ok", found, details: { ...details, use: "crun" } }
  }
  if (runcWorks) return { status: "ok", found, details: { ...details, use: "runc" } }
  if (crunWorks) {
    return {
      status: "degraded",
      found,
      fix: await fix("runc"),
      details: { ...details, use: "crun" },
    }
  }
  return { status: "missing", found, fix: await fix(crunSetsLimits ? "crun" : "runc"), details }
}

const say = (tool: string, state: ToolState): string => {
  switch (state.state) {
    case "runs":
      return `${tool} ${state.version}`
    case "broken":
      return `${tool} does not run (${state.reason})`
    case "absent":
      return `no ${tool}`
  }
}
