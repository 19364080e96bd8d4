import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
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

    const onHost = (...names: string[]) => join(stage.dataDir, "embedded", "caches", ...names)
    /** A file where the directory would be. */
    const obstruct = async (workspace: string) => {
      const file = onHost(workspace, "go")
      mkdirSync(onHost(workspace), { recursive: true })
      writeFileSync(file, "in the way")
      return { words: "(EEXIST|ENOTDIR)", clear: () => rmSync(file) }
    }
    describeCaches(() => stage, { name: "embedded", obstruct, onHost })
    describePressure(() => stage, { backend: "embedded", few: 1 })
  },
)
