import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { type BackendName, flagsOf } from "../backends.ts"
import { makeRepo } from "../boot/stage.ts"
import { openServer } from "../sandboxes/server.ts"

/** Covers the making of a toolbox, and boots beside other tests. */
export const STAGE_DEADLINE_MS = 120_000

export interface RunStage {
  readonly server: Awaited<ReturnType<typeof openServer>>
  /** A repo of this machine by the name `app`. */
  readonly repo: string
}

/** Opens a server and makes a repo for the tests of the current suite; both are there when the first of them begins. */
export const runStage = (backend: BackendName): (() => RunStage) => {
  let stage: RunStage | undefined
  beforeAll(async () => {
    const server = await openServer(await flagsOf(backend))
    stage = { server, repo: makeRepo(join(server.base, "app"), { README: "hello\n" }) }
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage?.server.close(), STAGE_DEADLINE_MS)
  return () => {
    if (stage === undefined) throw new Error("the stage is not open")
    return stage
  }
}
