import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { openHarness } from "@berth/backends/embedded/testing/harness"
import { specFor } from "@berth/backends/embedded/testing/spec"
import { requires } from "@berth/testing/requires"
import { reconcileSuite } from "./suite.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  reconcileSuite({ name: "the embedded backend" }, async () => {
    const harness = await openHarness()
    return {
      ...harness,
      obstruct: async (sandbox) => {
        const path = join(harness.directory, "sandboxes", sandbox, "state.json")
        execFileSync("chattr", ["+i", path])
        return async () => void execFileSync("chattr", ["-i", path])
      },
      strangers: async () => {
        const { backend, installation } = await harness.other()
        const spec = specFor(installation)
        await backend.create(spec)
        await backend.start(spec.identity.sandbox)
        return async () => {
          const seen = await backend.inspect(spec.identity.sandbox)
          await backend.remove(spec.identity.sandbox)
          await backend.close()
          return seen?.state === "running"
        }
      },
    }
  })
})
