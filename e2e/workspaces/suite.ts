import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe } from "vitest"
import { setStage } from "../leases/stage.ts"
import { archives } from "./archives.ts"
import { earlierIds } from "./earlier-ids.ts"
import { type InUseOptions, inUse } from "./in-use.ts"
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
]

export interface WorkspaceBackend {
  readonly backend: "embedded" | "docker"
  /** The flags with which a server uses the backend. */
  readonly flags: () => Promise<readonly string[]>
  /** The numbers of groups, and of cases of uses and archives, in a run that leaves most out. */
  readonly few: InUseOptions["few"] & { readonly groups: number }
}

/** Adds the cases of workspaces through a server, the same on every backend. */
export const describeWorkspaces = ({ backend, flags, few }: WorkspaceBackend): void => {
  let stage: Awaited<ReturnType<typeof setStage>>
  beforeAll(async () => {
    stage = await setStage("idlePause: 0\nidleStop: 0\nsessionKeep: 1h\n", await flags())
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage?.close(), STAGE_DEADLINE_MS)

  for (const { what, cases } of sampled(`groups of workspaces, ${backend}`, GROUPS, few.groups))
    describe(what, () => cases(() => stage, backend))
  describe("in use", () => inUse(() => stage, { backend, few }))
}
