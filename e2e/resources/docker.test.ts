import { afterAll, beforeAll } from "vitest"
import { choiceOf, describeOn } from "../backends.ts"
import { useSharedEngine } from "../docker/engine.ts"
import { describeCaches } from "./caches.ts"
import { describePressure } from "./pressure.ts"
import { type Stage, setStage } from "./stage.ts"

/** Covers the start of an engine, and boots beside other tests. */
const STAGE_DEADLINE_MS = 180_000

describeOn(["docker"], "resources that sandboxes share", (name) => {
  let stage: Stage
  beforeAll(async () => {
    stage = await setStage(new AbortController().signal, await choiceOf(name))
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage?.close(), STAGE_DEADLINE_MS)

  /** A volume of somebody else's that has the name. */
  const obstruct = async (workspace: string) => {
    const { makeVolume, removeVolume } = await useSharedEngine()
    const volume = `berth-${stage.installation}-${workspace}-go`
    await makeVolume(volume)
    return { words: "labels", clear: () => removeVolume(volume) }
  }
  describeCaches(() => stage, { name, obstruct })
  describePressure(() => stage, { backend: name, few: 1 })
})
