import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"
import { backendContract } from "../testing/contract.ts"
import { openHarness } from "./testing/harness.ts"
import { openHarnessOnRunc } from "./testing/on-runc.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  backendContract("embedded", openHarness)

  it("[R1.2] identifies a rootfs by its programs, and the host's system by its contents", async () => {
    const path = await mkdtemp(join(tmpdir(), "berth-rootfs-"))
    const { backend, close } = await openHarness()
    onTestFinished(async () => {
      await close()
      await rm(path, { recursive: true, force: true })
    })
    await mkdir(join(path, "usr/bin"), { recursive: true })
    const resolve = () => backend.resolveSystem({ kind: "rootfs", path })
    const before = await resolve()
    expect(await resolve()).toEqual(before)
    await writeFile(join(path, "usr/bin/tool"), "")
    expect(await resolve()).not.toEqual(before)
    const host = await backend.resolveSystem({ kind: "host" })
    expect(host).toEqual({ kind: "host", contents: expect.stringMatching(/^[0-9a-f]{64}$/) })
  })

  it("keeps the prepared tree of the host's system for the next server, and removes others", async () => {
    const harness = await openHarness()
    onTestFinished(() => harness.close())
    const systems = join(harness.directory, "systems")
    const prepared = async () => {
      const names = await readdir(systems)
      return Promise.all(names.map(async (name) => [name, (await stat(join(systems, name))).ino]))
    }
    await harness.backend.repair()
    const before = await prepared()
    expect(before).toHaveLength(1)
    await mkdir(join(systems, "of-another-boot"))
    await (await harness.reopen()).repair()
    expect(await prepared()).toEqual(before)
  })
})

requires("root", "runc", "conmon", "tini", "userNamespaces").describe("embedded on runc", () => {
  backendContract("embedded on runc", openHarnessOnRunc, { drawn: 10 })
})
