import { readdir, readFile } from "node:fs/promises"
import { parseMembership } from "@berth/host/cgroups/membership"
import { type CgroupMounts, parseCgroupMounts } from "@berth/host/cgroups/mounts"
import { requires } from "@berth/testing/requires"
import { describe, expect, it } from "vitest"
import { LIMITS, usableLimits } from "./limits.ts"

const here = async () => ({
  mounts: parseCgroupMounts(await readFile("/proc/self/mounts", "utf8")),
  membership: parseMembership(await readFile("/proc/self/cgroup", "utf8")),
})

requires("root").describe("usableLimits on this host", () => {
  it("finds every limit for root, and leaves no cgroup behind", async () => {
    const { mounts, membership } = await here()
    expect(await usableLimits(mounts, membership)).toEqual([...LIMITS])
    const tops = [...mounts.v1.values(), mounts.v2].filter((top) => top !== undefined)
    const left = async () => (await Promise.all(tops.map((top) => readdir(top)))).flat()
    // Polled, because another test may be in the middle of the same trial.
    await expect.poll(left).not.toContainEqual(expect.stringMatching(/^berth-doctor-/))
  })

  it("believes the v2 hierarchy only for the controllers it has; its freezer needs none", async ({
    skip,
  }) => {
    const { mounts, membership } = await here()
    if (mounts.v2 === undefined) return skip("needs the v2 hierarchy: none is mounted")
    const offered = (await readFile(`${mounts.v2}/cgroup.controllers`, "utf8")).trim().split(" ")
    const v2Only: CgroupMounts = { mode: "v2", v1: new Map(), v2: mounts.v2 }
    expect(await usableLimits(v2Only, membership)).toEqual(
      LIMITS.filter((limit) => limit === "freezer" || offered.includes(limit)),
    )
  })
})

describe("usableLimits", () => {
  it("finds none where no hierarchy is mounted", async () => {
    const none: CgroupMounts = { mode: "none", v1: new Map(), v2: undefined }
    expect(await usableLimits(none, new Map())).toEqual([])
  })

  it("finds none where no cgroup can be made in the hierarchy", async () => {
    const shut: CgroupMounts = { mode: "v1", v1: new Map([["memory", "/proc/1"]]), v2: "/proc/1" }
    expect(await usableLimits(shut, new Map([["memory", "/elsewhere"]]))).toEqual([])
  })
})
