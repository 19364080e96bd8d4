import { readFile } from "node:fs/promises"
import { parseMembership } from "@berth/host/cgroups/membership"
import { type CgroupMode, parseCgroupMounts } from "@berth/host/cgroups/mounts"
import type { DoctorFinding } from "@berth/protocol/doctor"
import { LIMITS, type Limit, usableLimits } from "../cgroups/limits.ts"
import { isRoot } from "../tools/as-root.ts"
import type { Check } from "../tools/check.ts"

export const cgroups: Check = {
  name: "cgroups",
  why: "They bound what a sandbox takes of the host (memory, processes, CPU), and freeze it for a pause or a snapshot.",
  onlyFor: "embedded",
  probe: async () => {
    const mounts = parseCgroupMounts(await readFile("/proc/self/mounts", "utf8"))
    const membership = parseMembership(await readFile("/proc/self/cgroup", "utf8"))
    return judge(mounts.mode, await usableLimits(mounts, membership), isRoot())
  },
}

export const judge = (mode: CgroupMode, limits: readonly Limit[], root: boolean): DoctorFinding => {
  const details = { mode, limits: [...limits] }
  if (mode === "none") {
    const found = "no cgroup hierarchy is mounted"
    return { status: "missing", found, fix: "mount -t cgroup2 none /sys/fs/cgroup", details }
  }
  const lost = LIMITS.filter((limit) => !limits.includes(limit))
  const kept = limits.length === 0 ? "no limit holds" : `limits that hold: ${limits.join(", ")}`
  if (lost.length === 0) return { status: "ok", found: `${mode}; ${kept}`, details }
  return {
    status: "degraded",
    found: `${mode}; ${kept}${limits.length === 0 ? "" : `; lost: ${lost.join(", ")}`}`,
    fix: fixFor(mode, root),
    details,
  }
}

const fixFor = (mode: CgroupMode, root: boolean): string => {
  if (!root) return "run the server as root: sudo berth serve"
  if (mode === "v2") return "run the server where the cgroup's controllers are delegated to it"
  return "boot with systemd.unified_cgroup_hierarchy=1 on the kernel command line"
}
