import { describe, expect, it } from "vitest"
import type { ToolState } from "../tools/probe-tool.ts"
import { judge } from "./oci-runtime.ts"

const absent: ToolState = { state: "absent" }
const broken: ToolState = { state: "broken", file: "/usr/bin/crun", reason: "no libyajl" }
const crun: ToolState = { state: "runs", file: "/usr/bin/crun", version: "1.8.1" }
const runc: ToolState = { state: "runs", file: "/usr/sbin/runc", version: "1.1.5" }

describe("the choice of an OCI runtime", () => {
  it.each([
    ["crun where it sets limits", crun, runc, true, "ok", "crun", undefined],
    ["crun alone where it sets limits", crun, absent, true, "ok", "crun", undefined],
    ["runc where crun does not", crun, runc, false, "ok", "runc", undefined],
    ["runc where there is no crun", absent, runc, true, "ok", "runc", undefined],
    ["runc where crun is broken", broken, runc, true, "ok", "runc", undefined],
    ["crun without limits, for want of runc", crun, absent, false, "degraded", "crun", "runc"],
    ["none: crun is the one to install", absent, absent, true, "missing", undefined, "crun"],
    ["none: runc is, where crun would not do", absent, absent, false, "missing", undefined, "runc"],
  ] as const)("takes %s", async (_, crunState, runcState, crunSetsLimits, status, use, fix) => {
    const finding = await judge({
      crun: crunState,
      runc: runcState,
      crunSetsLimits,
      fix: async (tool) => tool,
    })
    expect(finding.status).toBe(status)
    expect(finding.details.use).toBe(use)
    expect("fix" in finding ? finding.fix : undefined).toBe(fix)
  })
})
