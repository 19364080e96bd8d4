import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { beforeAll } from "vitest"
import { useSharedEngine } from "../docker/engine.ts"
import { describeFullDisk } from "./suite.ts"

const ENGINE_DEADLINE_MS = 180_000

requires("root", "docker", "tini").describe("sandboxes of a Docker engine", () => {
  let engine: Awaited<ReturnType<typeof useSharedEngine>>
  beforeAll(async () => {
    engine = await useSharedEngine()
  }, ENGINE_DEADLINE_MS)

  const isWhole = sized("parts of the full disk suite, docker", { few: 1, all: 2 }) > 1
  // The engine mounts overlays as root.
  describeFullDisk({ flags: () => engine.flags, isWhole, sparesRoot: false })
})
