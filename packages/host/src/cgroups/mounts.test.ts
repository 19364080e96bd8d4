import { describe, expect, it } from "vitest"
import { parseCgroupMounts } from "./mounts.ts"

const V2_ONLY = `sysfs /sys sysfs rw,nosuid 0 0
cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate 0 0
`
const V1_ONLY = `tmpfs /sys/fs/cgroup tmpfs ro,mode=755 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0
`
const HYBRID = `${V1_ONLY}cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n`

describe("parseCgroupMounts", () => {
  it.each([
    ["a pure v2 host", V2_ONLY, "v2", {}, "/sys/fs/cgroup"],
    [
      "a v1 host, where two controllers share a mount",
      V1_ONLY,
      "v1",
      {
        cpu: "/sys/fs/cgroup/cpu,cpuacct",
        cpuacct: "/sys/fs/cgroup/cpu,cpuacct",
        memory: "/sys/fs/cgroup/memory",
        freezer: "/sys/fs/cgroup/freezer",
        pids: "/sys/fs/cgroup/pids",
      },
      undefined,
    ],
    [
      "a hybrid host",
      HYBRID,
      "hybrid",
      {
        cpu: "/sys/fs/cgroup/cpu,cpuacct",
        cpuacct: "/sys/fs/cgroup/cpu,cpuacct",
        memory: "/sys/fs/cgroup/memory",
        freezer: "/sys/fs/cgroup/freezer",
        pids: "/sys/fs/cgroup/pids",
      },
      "/sys/fs/cgroup/unified",
    ],
    [
      "a v2 host with systemd's named v1 hierarchy, which has no controller",
      `${V2_ONLY}cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n`,
      "v2",
      {},
      "/sys/fs/cgroup",
    ],
    ["a host without any", "proc /proc proc rw 0 0\n", "none", {}, undefined],
    ["nothing", "", "none", {}, undefined],
    ["a cut line", "cgroup2 /sys/fs/cgroup", "none", {}, undefined],
    [
      "a path with a space",
      "cgroup2 /mnt/my\\040cgroups cgroup2 rw 0 0\n",
      "v2",
      {},
      "/mnt/my cgroups",
    ],
    [
      "a hierarchy mounted twice: the first counts",
      "cgroup2 /a cgroup2 rw 0 0\ncgroup2 /b cgroup2 rw 0 0\n",
      "v2",
      {},
      "/a",
    ],
  ])("reads %s", (_, text, mode, v1, v2) => {
    const mounts = parseCgroupMounts(text)
    expect({ mode: mounts.mode, v1: Object.fromEntries(mounts.v1), v2: mounts.v2 }).toEqual({
      mode,
      v1,
      v2,
    })
  })
})
