import type { DoctorFinding } from "@berth/protocol/doctor"
import type { Check } from "../tools/check.ts"
import { fixForMissing } from "../tools/install.ts"
import { type ToolState, toolState } from "../tools/probe-tool.ts"

export const ociRuntime: Check = {
  name: "oci-runtime",
  why: "It starts embedded sandboxes: namespaces, capabilities, seccomp and limits as Docker has them, without a daemon.",
  onlyFor: "embedded",
  probe: async (host, signal) => {
    const [crun, runc] = await Promise.all([
      toolState("crun", host, signal),
      toolState("runc", host, signal),
    ])
    return judge({ crun, runc, fix: (tool) => fixForMissing(tool, tool) })
  },
}

interface Seen {
  readonly crun: ToolState
  readonly runc: ToolState
  readonly fix: (tool: "crun") => Promise<string>
}

/** Prefers crun, because it starts several times faster; else takes runc. */
export const judge = async ({ crun, runc, fix }: Seen): Promise<DoctorFinding> => {
  const found = [say("crun", crun), say("runc", runc)].join("; ")
  const details = {
    ...(crun.state === "runs" ? { crun: crun.version } : {}),
    ...(runc.state === "runs" ? { runc: runc.version } : {}),
  }
  if (crun.state === "runs") return { status: "ok", found, details: { ...details, use: "crun" } }
  if (runc.state === "runs") return { status: "ok", found, details: { ...details, use: "runc" } }
  return { status: "missing", found, fix: await fix("crun"), details }
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
