import { randomBytes } from "node:crypto"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openEngine } from "./engine/engine.ts"
import { type Images, openImages, type PullProgress } from "./images.ts"
import { type DockerHarness, openHarness } from "./testing/harness.ts"
import { type Registry, startRegistry } from "./testing/registry.ts"

const never = new AbortController().signal

requires("docker").describe("images of an engine", () => {
  let harness: DockerHarness
  let registry: Registry
  let images: Images
  const told: PullProgress[] = []
  beforeAll(async () => {
    harness = await openHarness()
    registry = await startRegistry()
    const engine = await openEngine({ socketPath: harness.engine.socket }, never)
    images = openImages(engine, (progress) => told.push(progress))
  }, 120_000)
  afterAll(async () => {
    registry?.close()
    await harness?.close()
  }, 60_000)

  it("[R1.2] are resolved to their digests, without a pull", async () => {
    expect(await images.digestOf("berth-test/system", never)).toBe(harness.image)
    expect(await images.digestOf("berth-test/system:latest", never)).toBe(harness.image)
    expect(await images.digestOf(harness.image, never)).toBe(harness.image)
    expect(told).toEqual([])
  })

  it("are pulled once for five callers at the same time, with progress", async () => {
    const { reference } = registry
    const digests = await Promise.all(
      Array.from({ length: 5 }, () => images.digestOf(reference, never)),
    )
    expect(new Set(digests).size).toBe(1)
    expect(registry.pulls()).toBe(1)
    expect(told.at(-1)).toMatchObject({ image: reference, bytesTotal: expect.any(Number) })
    await images.digestOf(reference, never)
    expect(registry.pulls()).toBe(1)
  })

  it("[R1.14] are unavailable in the engine's words when no registry has them", async () => {
    for (const absent of [registry.reference.replace(/:1$/, ":2"), "127.0.0.1:1/no-registry:1"])
      await expect(images.digestOf(absent, never)).rejects.toMatchObject({
        code: "backend.image_unavailable",
        details: { image: absent, engineSaid: expect.stringMatching(/manifest|refused|not found/) },
      })
  })

  describe("for workspaces", () => {
    it("stand in for the host's system, and never for a directory", async () => {
      const { backend, image: digest } = harness
      const kind = "image" as const
      expect(await backend.resolveSystem({ kind: "host" })).toEqual({ kind, digest })
      const reference = "berth-test/system"
      expect(await backend.resolveSystem({ kind, reference })).toEqual({ kind, digest })
      await expect(
        backend.resolveSystem({ kind: "rootfs", path: "/srv/rootfs" }),
      ).rejects.toMatchObject({ code: "backend.unsupported" })
      const absent = `sha256:${randomBytes(32).toString("hex")}`
      await expect(backend.resolveSystem({ kind, reference: absent })).rejects.toMatchObject({
        code: "backend.image_unavailable",
      })
    })
  })
})
