import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Slug } from "@berth/protocol/ids"
import type { Overlay, SandboxSpec } from "@berth/protocol/sandbox"
import { requires } from "@berth/testing/requires"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { cacheVolume } from "./engine/names.ts"
import { startFaultyEngine } from "./testing/faulty-engine.ts"
import { askEngine, type DockerHarness, openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

const WORKSPACE = Slug.parse("test")

requires("docker").describe("mounts of a docker sandbox", () => {
  let harness: DockerHarness
  let directory: string

  beforeAll(async () => {
    harness = await openHarness()
  }, 120_000)
  afterAll(() => harness?.close(), 60_000)
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "berth-mounts-"))
  })
  afterEach(async () => {
    const { backend } = harness
    for (const { identity } of await backend.list()) await backend.remove(identity.sandbox)
    expect(await harness.census()).toMatchObject({ containers: 0, sandboxes: 0, mounts: 0 })
    await rm(directory, { recursive: true })
  })

  /** Runs a script to its end and returns its output. */
  const run = async (script: string, more: Partial<SandboxSpec["config"]>, extra: object = {}) => {
    const command = ["/bin/sh", "-c", script]
    const spec = { ...specFor(harness, { ...more, command }), ...extra }
    const { sandbox } = spec.identity
    await harness.backend.create(spec)
    await harness.backend.start(sandbox)
    await expect
      .poll(async () => (await harness.backend.inspect(sandbox))?.state, { timeout: 20_000 })
      .toBe("exited")
    return harness.backend.logs(sandbox)
  }

  it("shows a directory of the host, and lets nothing be written to a read-only one", async () => {
    await writeFile(join(directory, "file"), "of the host")
    const mount = { kind: "directory" as const, source: directory, target: "/data" }
    const read = "cat /data/file; echo new > /data/new || echo refused"
    expect(await run(read, { mounts: [{ ...mount, readOnly: true }] })).toMatch(/host.*refused/s)
    await run("echo new > /data/new", { mounts: [{ ...mount, readOnly: false }] })
    expect(await readFile(join(directory, "new"), "utf8")).toBe("new\n")
  })

  it("shows the directory that the sandbox shares with the server", async () => {
    const mounts = [{ kind: "shared" as const, target: "/run/berth" }]
    await run("echo inside > /run/berth/said", { mounts }, { sharedDirectory: directory })
    expect(await readFile(join(directory, "said"), "utf8")).toBe("inside\n")
  })

  it("refuses a directory that holds Berth's own data, or the kernel's", async () => {
    for (const source of [harness.directory, "/sys", "/proc"]) {
      const mounts = [{ kind: "directory" as const, source, target: "/data" }]
      await expect(harness.backend.create(specFor(harness, { mounts }))).rejects.toMatchObject({
        code: "backend.mount_invalid",
      })
    }
  })

  describe("a stack of layers", () => {
    const stack = Slug.parse("workspace")
    const mounts = [{ kind: "stack" as const, stack, target: "/workspace" }]

    const makeOverlay = async (): Promise<Overlay> => {
      for (const name of ["low", "high", "top", "work"]) await mkdir(join(directory, name))
      await writeFile(join(directory, "low/both"), "low")
      await writeFile(join(directory, "high/both"), "high")
      await writeFile(join(directory, "low/removed"), "")
      const paths = { lower: ["high", "low"], upper: "top", work: "work" }
      const options = ["redirect_dir=on", "index=off", "metacopy=off", "xino=off"]
      return { stack, base: directory, ...paths, options: [...options, "lowerdir=high:low"] }
    }

    it("is seen as one tree, and writes go into its top alone", async () => {
      const overlays = [await makeOverlay()]
      const script = "cat both; rm removed; echo mine > new; ls"
      expect(await run(script, { mounts }, { overlays })).toBe("highboth\nnew\n")
      expect(await readFile(join(directory, "top/new"), "utf8")).toBe("mine\n")
      expect(await readFile(join(directory, "low/removed"), "utf8")).toBe("")
      for (const { identity } of await harness.backend.list()) {
        await harness.backend.remove(identity.sandbox)
      }
      // The layers are the workspace's: they outlive every sandbox.
      expect(await readFile(join(directory, "top/new"), "utf8")).toBe("mine\n")
      expect(await harness.census()).toMatchObject({ volumes: 0 })
    })

    it("keeps a mount inside the sandbox where an earlier sandbox left a link that leads out", async () => {
      const overlays = [await makeOverlay()]
      const outside = join(directory, "outside")
      const data = join(directory, "data")
      for (const path of [outside, data]) await mkdir(path)
      await writeFile(join(outside, "file"), "of the host")
      const climbing = `${"../".repeat(20)}${outside.slice(1)}`
      await run(`ln -s ${outside} link; ln -s ${climbing} climbing`, { mounts }, { overlays })
      for (const { identity } of await harness.backend.list()) {
        await harness.backend.remove(identity.sandbox)
      }
      for (const name of ["link", "climbing"]) {
        const target = `/workspace/${name}`
        const mount = { kind: "directory" as const, source: data, target, readOnly: false }
        const script = `cat ${name}/file; echo ${name} > ${name}/${name}`
        // The engine refuses, or mounts at the place inside that the link leads to.
        await run(script, { mounts: [...mounts, mount] }, { overlays }).catch(() => {})
        expect(await readdir(outside)).toEqual(["file"])
        expect(await readFile(join(outside, "file"), "utf8")).toBe("of the host")
        for (const { identity } of await harness.backend.list()) {
          await harness.backend.remove(identity.sandbox)
        }
      }
    })

    it("replaces a volume with other options that an earlier creation left", async () => {
      const spec = { ...specFor(harness, { mounts }), overlays: [await makeOverlay()] }
      const { installation, sandbox } = spec.identity
      const left = {
        Name: `berth-${sandbox}-${stack}`,
        Labels: { "berth.installation": installation, "berth.sandbox": sandbox },
        DriverOpts: { type: "tmpfs", device: "tmpfs" },
      }
      await askEngine(harness.engine, "POST", "/volumes/create", left)
      await harness.backend.create(spec)
      const { body } = await askEngine(harness.engine, "GET", `/volumes/${left.Name}`)
      expect(body).toMatchObject({ Options: { type: "overlay" } })
    })

    it("is refused without its overlay", async () => {
      await expect(harness.backend.create(specFor(harness, { mounts }))).rejects.toMatchObject({
        code: "input.invalid",
        details: { missing: stack },
      })
    })
  })

  describe("caches", () => {
    const removeCaches = async () => {
      for (const cache of ["npm", "pip"] as const) {
        const name = cacheVolume(harness.installation, WORKSPACE, cache)
        await askEngine(harness.engine, "DELETE", `/volumes/${name}`)
      }
    }

    it("[R1.13] are volumes of the agent's user that the sandboxes of a workspace share", async () => {
      const results = await harness.backend.ensureCaches(WORKSPACE, ["npm", "pip"])
      expect(results).toEqual([
        { cache: "npm", ready: true },
        { cache: "pip", ready: true },
      ])
      const mounts = [{ kind: "cache" as const, cache: "npm" as const, target: "/cache" }]
      await run("echo kept > /cache/file", { mounts })
      expect(await run("cat /cache/file; stat -c %u /cache", { mounts })).toBe("kept\n1000\n")
      const { backend } = harness
      for (const { identity } of await backend.list()) await backend.remove(identity.sandbox)
      await removeCaches()
    })

    it("[R1.13] fail with a reason each by itself", async () => {
      const Name = cacheVolume(harness.installation, WORKSPACE, "npm")
      await askEngine(harness.engine, "POST", "/volumes/create", { Name })
      const results = await harness.backend.ensureCaches(WORKSPACE, ["npm", "pip"])
      expect(results).toEqual([
        { cache: "npm", ready: false, engineSaid: expect.stringContaining("labels") },
        { cache: "pip", ready: true },
      ])
      await removeCaches()
    })

    it("[R1.13] are made once for five callers at the same time and the sandboxes made with them", async () => {
      const counting = await startFaultyEngine(harness.engine.socket)
      const backend = await harness.openThrough(counting.address)
      const mounts = [{ kind: "cache" as const, cache: "npm" as const, target: "/cache" }]
      const from = counting.asked.length
      const specs = Array.from({ length: 5 }, () => specFor(harness, { mounts }))
      await Promise.all(
        specs.map(async (spec) => {
          await backend.ensureCaches(WORKSPACE, ["npm"])
          await backend.create(spec)
        }),
      )
      const asked = counting.asked.slice(from).filter((line) => line.includes("/volumes"))
      expect(asked.filter((line) => line.startsWith("POST"))).toHaveLength(1)
      expect(asked.length).toBeLessThanOrEqual(specs.length)
      await Promise.all(specs.map(({ identity }) => backend.remove(identity.sandbox)))
      await counting.close()
      await removeCaches()
    })

    it("[R1.13] are not made silently by the engine where they were not ensured", async () => {
      const mounts = [{ kind: "cache" as const, cache: "go" as const, target: "/cache" }]
      await expect(harness.backend.create(specFor(harness, { mounts }))).rejects.toMatchObject({
        code: "backend.mount_invalid",
      })
      expect(await harness.census()).toMatchObject({ volumes: 0 })
    })
  })
})
