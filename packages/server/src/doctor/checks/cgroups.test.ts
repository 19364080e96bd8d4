import type { CgroupMode } from "@berth/host/cgroups/mounts"
import { describe, expect, it } from "vitest"
import type { Limit } from "../cgroups/limits.ts"
import { judge } from "./cgroups.ts"

const ALL: readonly Limit[] = ["memory", "pids", "cpu", "freezer"]

describe("the verdict on cgroups", () => {
  it.each<[CgroupMode, readonly Limit[], string, string]>([
    ["v2", ALL, "ok", "v2; limits that hold: memory, pids, cpu, freezer"],
    ["hybrid", ALL, "ok", "hybrid; limits that hold: memory, pids, cpu, freezer"],
    [
      "v2",
      ["memory", "pids", "freezer"],
      "degraded",
      "v2; limits that hold: memory, pids, freezer; lost: cpu",
    ],
    ["v1", [], "degraded", "v1; no limit holds"],
    ["none", [], "missing", "no cgroup hierarchy is mounted"],
  ])("on a %s host where %j hold is %s", (mode, limits, status, found) => {
    const finding = judge(mode, limits, true)
    expect(finding).toMatchObject({ status, found, details: { mode, limits } })
    expect("fix" in finding).toBe(status !== "ok")
  })

  it("recommends sudo to a user without rights", () => {
    expect(judge("v1", [], false)).toMatchObject({ fix: expect.stringContaining("sudo") })
  })
})
