import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe } from "vitest"
import { BACKENDS, describeOn, drawnOn, flagsOf } from "../backends.ts"
import { setStage } from "../leases/stage.ts"
import { archives } from "./archives.ts"
import { earlierIds } from "./earlier-ids.ts"
import { betweenPrompts, inUse, USES } from "./in-use.ts"
import { otherRepo } from "./other-repo.ts"
import { refusedCommands } from "./refused.ts"
import { removedWorkspaces } from "./removed.ts"

/** Covers the start of an engine, the making of a toolbox, and boots beside other tests. */
const STAGE_DEADLINE_MS = 180_000

const GROUPS = [
  { what: "a command that is refused", cases: refusedCommands },
  { what: "a repo whose name another workspace has", cases: otherRepo },
  { what: "the id of an earlier sandbox", cases: earlierIds },
  { what: "a workspace that is removed", cases: removedWorkspaces },
  { what: "an archive of a workspace's files", cases: archives },
  { what: "a session between its prompts", cases: betweenPrompts },
]

/** Adds the cases of workspaces through a server, the same on every backend. A partial run takes some of both together. */
export const describeWorkspaces = (): void => {
  for (const backend of BACKENDS) {
    const groups = sampled("groups of workspaces", GROUPS, 3, drawnOn(backend))
    const uses = sampled("uses of a sandbox", USES, 2, drawnOn(backend))
    if (groups.length + uses.length === 0) continue
    describeOn([backend], "workspaces through a server", () => {
      let stage: Awaited<ReturnType<typeof setStage>>
      beforeAll(async () => {
        stage = await setStage(
          "idlePause: 0\nidleStop: 0\nsessionKeep: 1h\n",
          await flagsOf(backend),
        )
      }, STAGE_DEADLINE_MS)
      afterAll(() => stage?.close(), STAGE_DEADLINE_MS)

      for (const { what, cases } of groups) describe(what, () => cases(() => stage, backend))
      if (uses.length > 0) describe("in use", () => inUse(() => stage, uses))
    })
  }
}
