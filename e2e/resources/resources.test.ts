import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll } from "vitest"
import { describeCaches } from "./caches.ts"
import { describePressure } from "./pressure.ts"
import { type Stage, setStage } from "./stage.ts"

const STAGE_DEADLINE_MS = 120_000

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces", "pip").describe(
  "resources that sandboxes share, embedded",
  () => {
    let stage: Stage
    beforeAll(async () => {
      stage = await setStage(new AbortController().signal)
    }, STAGE_DEADLINE_MS)
    afterAll(() => stage.close(), STAGE_DEADLINE_MS)

    describeCaches(() => stage)
    describePressure(() => stage, { backend: "embedded", few: 2 })
  },
)
