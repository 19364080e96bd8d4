import { chmod, mkdtemp, readdir, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { openSystems } from "./systems.ts"
import { makeRootfs } from "./testing/small-rootfs.ts"

let place: string
let directory: string
let path: string
let clock: number
beforeEach(async () => {
  place = await mkdtemp(join(tmpdir(), "berth-systems-"))
  await chmod(place, 0o711)
  directory = join(place, "systems")
  path = join(place, "rootfs")
  clock = 0
})
afterEach(() => rm(place, { recursive: true, force: true }))

const signal = () => AbortSignal.timeout(10_000)
const open = () => openSystems({ directory, init: "/usr/bin/tini", now: () => clock })

describe("openSystems", () => {
  it("looks at a system once for all callers within a second, and again after it", async () => {
    await makeRootfs(path, { layout: "merged" })
    const identity = { kind: "rootfs", path } as const
    const systems = open()
    const all = await Promise.all(
      Array.from({ length: 20 }, () => systems.prepare(identity, [], signal())),
    )
    expect(new Set(all).size).toBe(1)
    await rm(path, { recursive: true })
    clock = 999
    expect(await systems.prepare(identity, [], signal())).toBe(all[0])
    clock = 1_000
    await expect(systems.prepare(identity, [], signal())).rejects.toMatchObject({
      code: "backend.rootfs_invalid",
    })
  })

  it("prepares another tree for other mount points", async () => {
    const systems = open()
    const host = { kind: "host" } as const
    const plain = await systems.prepare(host, [], signal())
    const withPoint = await systems.prepare(host, ["/data"], signal())
    expect(withPoint.root).not.toBe(plain.root)
    expect((await stat(join(withPoint.root, "data"))).isDirectory()).toBe(true)
    expect(await readdir(plain.root)).not.toContain("data")
  })

  it("tries again after a failure", async () => {
    const systems = open()
    const identity = { kind: "rootfs", path } as const
    await expect(systems.prepare(identity, [], signal())).rejects.toThrow()
    await makeRootfs(path, { layout: "merged" })
    await expect(systems.prepare(identity, [], signal())).resolves.toMatchObject({
      root: expect.stringContaining(directory),
    })
  })

  it("stops for the caller that cancels, and not for another", async () => {
    const systems = open()
    const host = { kind: "host" } as const
    const stop = new AbortController()
    const cancelled = systems.prepare(host, [], stop.signal)
    const other = systems.prepare(host, [], signal())
    stop.abort(new Error("enough"))
    await expect(cancelled).rejects.toThrow("enough")
    await expect(other).resolves.toMatchObject({ root: expect.stringContaining(directory) })
  })
})
