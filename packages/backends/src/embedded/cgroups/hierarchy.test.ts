import { parseCgroupMounts } from "@berth/host/cgroups/mounts"
import { describe, expect, it } from "vitest"
import { chooseHierarchies } from "./hierarchy.ts"

const V2 = "cgroup2 /cg cgroup2 rw 0 0\n"
const UNIFIED = "cgroup2 /cg/unified cgroup2 rw 0 0\n"
const v1 = (...controllers: string[]) =>
  controllers.map((it) => `cgroup /cg/${it} cgroup rw,${it} 0 0\n`).join("")

describe("chooseHierarchies", () => {
  it.each([
    [
      "everything from v2 where it offers all",
      V2,
      "cpuset cpu io memory pids\n",
      { "/cg": [2, "memory", "pids", "cpu", "cpuacct", "freezer"] },
    ],
    [
      "from v2 only what it offers, and what every cgroup of it can do",
      V2,
      "pids\n",
      { "/cg": [2, "pids", "cpuacct", "freezer"] },
    ],
    [
      "everything from v1, two controllers from their common mount",
      v1("memory", "pids", "cpu,cpuacct", "freezer"),
      "",
      {
        "/cg/memory": [1, "memory"],
        "/cg/pids": [1, "pids"],
        "/cg/cpu,cpuacct": [1, "cpu", "cpuacct"],
        "/cg/freezer": [1, "freezer"],
      },
    ],
    [
      "nothing from a v2 hierarchy that has nothing v1 lacks",
      v1("memory", "pids", "cpu,cpuacct", "freezer") + UNIFIED,
      "hugetlb\n",
      {
        "/cg/memory": [1, "memory"],
        "/cg/pids": [1, "pids"],
        "/cg/cpu,cpuacct": [1, "cpu", "cpuacct"],
        "/cg/freezer": [1, "freezer"],
      },
    ],
    [
      "from the v2 hierarchy of a hybrid host what only it has",
      v1("cpu,cpuacct", "freezer") + UNIFIED,
      "memory pids\n",
      {
        "/cg/unified": [2, "memory", "pids"],
        "/cg/cpu,cpuacct": [1, "cpu", "cpuacct"],
        "/cg/freezer": [1, "freezer"],
      },
    ],
    ["nothing where nothing is mounted", "proc /proc proc rw 0 0\n", "", {}],
  ])("takes %s", (_, mounts, offered, expected) => {
    const chosen = chooseHierarchies(parseCgroupMounts(mounts), offered)
    expect(
      Object.fromEntries(
        chosen.map(({ mount, version, controllers }) => [mount, [version, ...controllers]]),
      ),
    ).toEqual(expected)
  })
})
