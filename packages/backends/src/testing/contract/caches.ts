import { statSync } from "node:fs"
import { Slug } from "@berth/protocol/ids"
import type { AddCase, AddGroup } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import type { ContractTestbed } from "./testbed.ts"

/** Caches that the sandboxes of a workspace share. */
export const cacheCases = (testbed: ContractTestbed, it: AddCase, describe: AddGroup): void => {
  describe("caches", () => {
    const workspace = Slug.parse("contract")
    const names = async () =>
      (await testbed.backend.listCaches()).map(({ cache }) => cache).toSorted()

    it("are listed with the time of their last use, and removed, but not another installation's", async () => {
      const { backend: theirs } = await testbed.harness.other()
      await theirs.ensureCaches(workspace, ["npm"])
      const before = Date.now()
      await testbed.backend.ensureCaches(workspace, ["npm", "go"])
      const found = await testbed.backend.listCaches()
      expect(found.map((each) => each.workspace)).toEqual([workspace, workspace])
      for (const { usedAt, directory } of found) {
        expect(Date.parse(usedAt ?? "")).toBeGreaterThanOrEqual(before - 1)
        // The server measures the disk usage of the workspace here.
        expect(statSync(directory ?? "").isDirectory()).toBe(true)
      }
      expect(await names()).toEqual(["go", "npm"])

      expect(await testbed.backend.removeCache(workspace, "npm")).toBe(true)
      expect(await testbed.backend.removeCache(workspace, "npm")).toBe(true)
      expect(await names()).toEqual(["go"])
      expect(await theirs.listCaches()).toMatchObject([{ workspace, cache: "npm" }])
      await theirs.removeCache(workspace, "npm")
      await testbed.backend.removeCache(workspace, "go")
    })

    it("are not removed while a sandbox has them", async () => {
      await testbed.backend.ensureCaches(workspace, ["pip"])
      const mounts = [{ kind: "cache" as const, cache: "pip" as const, target: "/cache" }]
      const sandbox = await testbed.boot({ mounts })
      expect(await testbed.backend.removeCache(workspace, "pip")).toBe(false)
      expect(await names()).toEqual(["pip"])
      await testbed.backend.remove(sandbox)
      expect(await testbed.backend.removeCache(workspace, "pip")).toBe(true)
      expect(await names()).toEqual([])
    })
  })
}
