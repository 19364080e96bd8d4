import { chmodSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { makeDiskWithPower } from "@berth/testing/power-loss"
import { requires } from "@berth/testing/requires"
import { expect, onTestFinished } from "vitest"
import { serveFiles } from "./testing/files.ts"

requires("root").it("a file whose write was confirmed survives a power loss", async () => {
  const disk = makeDiskWithPower()
  onTestFinished(disk.remove)
  chmodSync(disk.base, 0o755)
  const { call, workspace } = await serveFiles({ workspaceAt: join(disk.directory, "workspace") })
  const one = await call("PUT", "/files/content", { path: "one" }, { bytes: Buffer.from("first") })
  expect(one.status).toBe(200)
  const files = [{ path: "two", content: "second" }]
  expect((await call("POST", "/files/write", {}, { body: { files } })).status).toBe(200)
  disk.losePower()
  expect(readFileSync(join(workspace, "one"), "utf8")).toBe("first")
  expect(readFileSync(join(workspace, "two"), "utf8")).toBe("second")
})
