import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { readFreeMemory } from "./free-memory.ts"

const MIB = 1024 ** 2

/** A host in plain files; names are those of the kernel. */
const host = (files: Readonly<Record<string, string>>) => {
  const root = mkdtempSync(join(tmpdir(), "berth-memory-"))
  onTestFinished(() => rmSync(root, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), text.replaceAll("ROOT", root))
  }
  const [meminfo, cgroup, mounts] = ["meminfo", "cgroup", "mounts"].map((name) => join(root, name))
  return readFreeMemory({ meminfo: meminfo ?? "", cgroup: cgroup ?? "", mounts: mounts ?? "" })
}

const MEMINFO = "MemTotal: 9000000 kB\nMemAvailable:    1024000 kB\n"
const AVAILABLE = 1_024_000 * 1024
const V2 = { cgroup: "0::/a/b\n", mounts: "cgroup2 ROOT/v2 cgroup2 rw 0 0\n" }
const V1 = { cgroup: "4:memory:/a\n0::/\n", mounts: "cgroup ROOT/v1 cgroup rw,memory 0 0\n" }

const group = (directory: string, files: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(files).map(([name, text]) => [`${directory}/memory.${name}`, text]),
  )

describe("the memory that is left", () => {
  it.each<[string, Readonly<Record<string, string>>, number]>([
    ["is the host's", { meminfo: MEMINFO }, AVAILABLE],
    ["is the host's where no group has a limit", { meminfo: MEMINFO, ...V2 }, AVAILABLE],
    [
      "is left of the limit of the process's own group",
      {
        meminfo: MEMINFO,
        ...V2,
        ...group("v2/a/b", { max: `${300 * MIB}\n`, current: `${100 * MIB}\n` }),
      },
      200 * MIB,
    ],
    [
      "is left of the limit of a group around it, where cache that can be dropped counts as free",
      {
        meminfo: MEMINFO,
        ...V2,
        ...group("v2/a/b", { max: "max\n", current: "1\n" }),
        ...group("v2/a", {
          max: `${300 * MIB}\n`,
          current: `${200 * MIB}\n`,
          stat: `anon 1\ninactive_file ${50 * MIB}\n`,
        }),
      },
      150 * MIB,
    ],
    [
      "is left of the limit of a v1 group",
      {
        meminfo: MEMINFO,
        ...V1,
        ...group("v1/a", {
          limit_in_bytes: `${64 * MIB}\n`,
          usage_in_bytes: `${60 * MIB}\n`,
          stat: `inactive_file 7\ntotal_inactive_file ${MIB}\n`,
        }),
        ...group("v1", { limit_in_bytes: "9223372036854771712\n", usage_in_bytes: "5\n" }),
      },
      5 * MIB,
    ],
    ["is unlimited where nothing can be read", {}, Number.POSITIVE_INFINITY],
  ])("%s", async (_, files, left) => {
    expect(await host(files)).toBe(left)
  })

  it("is more than nothing and less than the total on this host", async () => {
    const total = Number(/MemTotal:\s+(\d+)/.exec(readFileSync("/proc/meminfo", "utf8"))?.[1])
    const left = await readFreeMemory()
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThan(total * 1024)
  })
})
