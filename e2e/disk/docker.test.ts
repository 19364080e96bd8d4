import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { afterAll, beforeAll } from "vitest"
import { startEngine } from "../docker/engine.ts"
import { describeFullDisk } from "./suite.ts"

const ENGINE_DEADLINE_MS = 180_000

requires("root", "docker", "tini").describe("sandboxes of a Docker engine", () => {
  let engine: Awaited<ReturnType<typeof startEngine>>
  beforeAll(async () => {
    engine = await startEngine()
  }, ENGINE_DEADLINE_MS)
  afterAll(() => engine?.stop(), ENGINE_DEADLINE_MS)

  const isWhole = sized("parts of the full disk suite, docker", { few: 1, all: 2 }) > 1
  // The engine mounts overlays as root.
  describeFullDisk({ flags: () => engine.flags, isWhole, sparesRoot: false })
})
