import { requires } from "@berth/testing/requires"
import { beforeAll } from "vitest"
import { useSharedEngine } from "../docker/engine.ts"
import { describeFullDisk } from "./suite.ts"

const ENGINE_DEADLINE_MS = 180_000

requires("root", "docker", "tini").describe("sandboxes of a Docker engine", () => {
  let engine: Awaited<ReturnType<typeof useSharedEngine>>
  beforeAll(async () => {
    engine = await useSharedEngine()
  }, ENGINE_DEADLINE_MS)

  describeFullDisk({
    backend: "docker",
    flags: () => engine.flags,
    few: { attacks: 1, cases: 0 },
    // The engine mounts overlays as root.
    sparesRoot: false,
  })
})
