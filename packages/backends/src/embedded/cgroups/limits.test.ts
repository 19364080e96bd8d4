import { readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { Controller } from "./hierarchy.ts"
import { setLimits } from "./limits.ts"
import { SMALL, temporaryDirectory } from "./testing/host.ts"

const v1With = async (controllers: Controller[], files: Readonly<Record<string, string>>) => {
  const directory = await temporaryDirectory()
  for (const [file, text] of Object.entries(files)) await writeFile(join(directory, file), text)
  await setLimits({ version: 1, controllers: new Set(controllers), directory }, SMALL)
  const names = await readdir(directory)
  const entries = names.map(async (name) => [name, await readFile(join(directory, name), "utf8")])
  return Object.fromEntries(await Promise.all(entries))
}

describe("setLimits under v1", () => {
  it("keeps memory out of swap where the kernel does not count swap", async () => {
    const files = { "memory.limit_in_bytes": "", "memory.swappiness": "60" }
    expect(await v1With(["memory"], files)).toEqual({
      "memory.limit_in_bytes": `${SMALL.memoryBytes}`,
      "memory.swappiness": "00",
    })
  })

  it("writes quota and period of the CPU time", async () => {
    expect(await v1With(["cpu"], { "cpu.cfs_period_us": "", "cpu.cfs_quota_us": "-1" })).toEqual({
      "cpu.cfs_period_us": "100000",
      "cpu.cfs_quota_us": "20000",
    })
  })

  it("writes nothing for controllers that have no limit", async () => {
    expect(await v1With(["freezer", "cpuacct"], {})).toEqual({})
  })
})
