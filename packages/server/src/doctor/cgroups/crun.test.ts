import { describe, expect, it } from "vitest"
import { crunManagesCgroups } from "./crun.ts"

describe("crunManagesCgroups", () => {
  it.each([
    ["v2", "cpu memory pids\n", true],
    ["v1", "", true],
    ["hybrid", "", true],
    ["hybrid", "\n", true],
    ["hybrid", "hugetlb\n", false],
  ] as const)("on a %s host whose v2 hierarchy offers %j: %s", (mode, controllers, expected) => {
    expect(crunManagesCgroups(mode, controllers)).toBe(expected)
  })
})
