import { describe, expect, it } from "vitest"
import type { ToolState } from "../tools/probe-tool.ts"
import { judge } from "./oci-runtime.ts"

const absent: ToolState = { state: "absent" }
const broken: ToolState = { state: "broken", file: "/usr/bin/crun", reason: "no libyajl" }
const crun: ToolState = { state: "runs", file: "/usr/bin/crun", version: "1.8.1" }
const runc: ToolState = { state: "runs", file: "/usr/sbin/runc", version: "1.1.5" }

describe("the choice of an OCI runtime", () => {
  it.each([
    ["crun before runc", crun, runc, "ok", "crun", undefined],
    ["crun alone", crun, absent, "ok", "crun", undefined],
    ["runc where there is no crun", absent, runc, "ok", "runc", undefined],
    ["runc where crun is broken", broken, runc, "ok", "runc", undefined],
    ["none where there is none, and recommends crun", absent, absent, "missing", undefined, "crun"],
  ] as const)("takes %s", async (_, crunState, runcState, status, use, fix) => {
    const finding = await judge({ crun: crunState, runc: runcState, fix: async (tool) => tool })
    expect(finding.status).toBe(status)
    expect(finding.details.use).toBe(use)
    expect("fix" in finding ? finding.fix : undefined).toBe(fix)
  })
})
