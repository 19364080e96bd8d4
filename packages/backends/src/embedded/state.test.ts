import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { StateDirectory } from "./state.ts"
import { stateOf } from "./testing/state.ts"

const { signal } = new AbortController()

describe("the directory of states", () => {
  let root: string
  let states: StateDirectory
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "berth-states-"))
    onTestFinished(() => rm(root, { recursive: true }))
    states = new StateDirectory(root)
    await states.prepare()
  })

  it("is read by the next server as it was written", async () => {
    const state = stateOf()
    const { sandbox } = state.spec.identity
    await states.begin(state)
    await states.write({ ...state, progress: "created" })
    const next = new StateDirectory(root)
    await next.prepare()
    expect(await next.read(sandbox)).toEqual({ ...state, progress: "created" })
    expect(await next.list()).toEqual([sandbox])
  })

  it("does not count a beginning that a crash interrupted, and removes it", async () => {
    const { directory } = states.paths(newId.sandbox())
    await mkdir(`${directory}.new/bundle`, { recursive: true })
    expect(await states.list()).toEqual([])
    await states.prepare()
    expect(await readdir(join(root, "sandboxes"))).toEqual([])
  })

  it("tells a damaged state, which hides no other, and sets it aside with its files", async () => {
    const [whole, torn] = [stateOf(), stateOf()]
    const { sandbox } = torn.spec.identity
    await states.begin(whole)
    await states.begin(torn)
    await writeFile(states.paths(sandbox).state, "{")
    await expect(states.read(sandbox)).rejects.toMatchObject({ code: "backend.state_damaged" })
    expect(await states.readAll()).toEqual([whole])
    await states.setAside(sandbox)
    expect(await states.list()).toEqual([whole.spec.identity.sandbox])
    const [aside = ""] = await readdir(join(root, "damaged"))
    expect(await readdir(join(root, "damaged", aside))).toContain("state.json")
  })

  it("leaves nothing of a sandbox that is removed, also twice", async () => {
    const state = stateOf()
    const { sandbox } = state.spec.identity
    await states.begin(state)
    const { exit, home } = states.paths(sandbox)
    await mkdir(home)
    await writeFile(exit, "0")
    await states.remove(sandbox, signal)
    await states.remove(sandbox, signal)
    expect(await states.read(sandbox)).toBeUndefined()
    expect(await readdir(join(root, "sandboxes"))).toEqual([])
    expect(await readdir(join(root, "exits"))).toEqual([])
  })
})
