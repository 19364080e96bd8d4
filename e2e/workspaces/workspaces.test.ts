import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe } from "vitest"
import { setStage } from "../leases/stage.ts"
import { archives } from "./archives.ts"
import { earlierIds } from "./earlier-ids.ts"
import { inUse } from "./in-use.ts"
import { otherRepo } from "./other-repo.ts"
import { refusedCommands } from "./refused.ts"
import { removedWorkspaces } from "./removed.ts"

/** A toolbox is built, and sandboxes boot beside other tests. */
const STAGE_DEADLINE_MS = 120_000

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "workspaces through a server, embedded",
  () => {
    let stage: Awaited<ReturnType<typeof setStage>>
    beforeAll(async () => {
      stage = await setStage("idlePause: 0\nidleStop: 0\nsessionKeep: 1h\n")
    }, STAGE_DEADLINE_MS)
    afterAll(() => stage.close(), STAGE_DEADLINE_MS)

    describe("a command that is refused", () => refusedCommands(() => stage))
    describe("a repo whose name another workspace has", () => otherRepo(() => stage))
    describe("the id of an earlier sandbox", () => earlierIds(() => stage))
    describe("a workspace that is removed", () => removedWorkspaces(() => stage))
    describe("an archive of a workspace's files", () => archives(() => stage))
    describe("in use", () => inUse(() => stage, { backend: "embedded", inPart: false }))
  },
)
