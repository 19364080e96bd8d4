import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll } from "vitest"
import { useSharedEngine } from "../docker/engine.ts"
import { describePressure } from "./pressure.ts"
import { type Stage, setStage } from "./stage.ts"

/** Covers the start of an engine, and boots beside other tests. */
const STAGE_DEADLINE_MS = 180_000

requires("root", "docker", "tini").describe("resources that sandboxes share, on Docker", () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await setStage(new AbortController().signal, (await useSharedEngine()).choice)
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage?.close(), STAGE_DEADLINE_MS)

  describePressure(() => stage, { backend: "docker", few: 1 })
})
