import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe } from "vitest"
import { useSharedEngine } from "../docker/engine.ts"
import { setStage } from "../leases/stage.ts"
import { inUse } from "./in-use.ts"

/** An engine starts, and sandboxes boot beside other tests. */
const STAGE_DEADLINE_MS = 180_000

requires("root", "docker", "tini").describe("workspaces through a server, on Docker", () => {
  let stage: Awaited<ReturnType<typeof setStage>>
  beforeAll(async () => {
    const { flags } = await useSharedEngine()
    stage = await setStage("idlePause: 0\nidleStop: 0\nsessionKeep: 1h\n", flags)
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage?.close(), STAGE_DEADLINE_MS)

  describe("in use", () => inUse(() => stage, { backend: "docker", inPart: true }))
})
