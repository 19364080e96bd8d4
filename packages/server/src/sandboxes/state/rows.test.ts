import { newId, Slug } from "@berth/protocol/ids"
import { ConfigHash } from "@berth/protocol/sandbox"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it } from "vitest"
import { makeDataDir } from "../../store/testing/data-dir.ts"
import { openForTest } from "../../store/testing/open-for-test.ts"
import { openDecisions } from "./decisions.ts"
import { openRows } from "./rows.ts"
import { openWorkspaces } from "./workspaces.ts"

it("forgets sandboxes that are long gone, except the last one of a workspace that still exists", async () => {
  const { db } = await openForTest({ dataDir: makeDataDir() })
  let now = 0
  const clock = { now: () => now, monotonicMs: () => 0 }
  const rows = openRows(db, clock)
  const decisions = openDecisions(db, clock)
  const workspaces = openWorkspaces(db, clock)
  const workspace = Slug.parse("app")
  await workspaces.put(WorkspaceSpec.parse({ slug: workspace }))
  const add = async () => {
    const id = newId.sandbox()
    const configHash = ConfigHash.parse("0".repeat(64))
    now += 1
    await rows.insert({ id, workspace, configHash, mode: "fresh", phase: "ready" })
    await decisions.add(id, "keep", "nobody uses it")
    await rows.beginStop(id, { cause: "idle", reason: "nobody uses it" })
    await rows.move(id, ["stopping"], "gone")
    return id
  }
  const [first, last] = [await add(), await add()]
  const shown = async () => (await rows.listShown()).map(({ id }) => id)
  expect(await shown()).toEqual([last])
  now += 1_000
  await rows.forgetGone(5_000)
  expect(await rows.get(first)).toBeDefined()
  await rows.forgetGone(500)
  expect(await rows.get(first)).toBeUndefined()
  expect(await decisions.of(first)).toEqual([])
  expect(await shown()).toEqual([last])
  await workspaces.remove(workspace)
  await rows.forgetGone(500)
  expect(await rows.get(last)).toBeUndefined()
})
