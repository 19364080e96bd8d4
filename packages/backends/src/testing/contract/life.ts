import { newId } from "@berth/protocol/ids"
import type { AddCase, AddGroup } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import { IDLE, STUBBORN } from "./commands.ts"
import type { ContractTestbed } from "./testbed.ts"

/** The deadline for twenty sandboxes at once on a busy machine, where an engine takes half a second for one. */
const MANY = { deadlineMs: 60_000 }

/** A sandbox from its creation to its removal. */
export const lifeCases = (
  testbed: ContractTestbed,
  it: AddCase,
  describe: AddGroup,
  atOnce: number,
): void => {
  describe("the life of a sandbox", () => {
    endingCases(testbed, it)
    creatingCases(testbed, it, atOnce)
  })
}

const endingCases = (testbed: ContractTestbed, it: AddCase): void => {
  it("creates, starts, stops with grace and removes, and leaves nothing behind", async () => {
    const spec = testbed.specOf()
    const { sandbox } = spec.identity
    const created = await testbed.backend.create(spec)
    expect(created).toMatchObject({ identity: spec.identity, state: "created" })
    await testbed.backend.start(sandbox)
    expect(await testbed.state(sandbox)).toBe("running")
    await testbed.said(sandbox, "up")
    expect(await testbed.stop(sandbox)).toMatchObject({ code: 0, reason: "exited" })
    expect(await testbed.state(sandbox)).toBe("exited")
    await testbed.backend.remove(sandbox)
    expect(await testbed.backend.inspect(sandbox)).toBeUndefined()
    await testbed.expectEmpty()
  })

  it("kills a process that ignores the stop after its grace period", async () => {
    const sandbox = await testbed.boot({ command: STUBBORN })
    await testbed.said(sandbox, "up")
    expect(await testbed.stop(sandbox, 50)).toMatchObject({ code: 137, reason: "signalled" })
  })

  it("stops twice, and removes twice and an unknown sandbox, without error", async () => {
    const sandbox = await testbed.boot()
    const first = await testbed.stop(sandbox)
    expect(first).toBeDefined()
    expect(await testbed.stop(sandbox)).toEqual(first)
    await testbed.backend.remove(sandbox)
    await testbed.backend.remove(sandbox)
    await testbed.backend.remove(newId.sandbox())
  })

  it("removes created, running, paused and exited sandboxes by force", async () => {
    const created = testbed.specOf()
    await testbed.backend.create(created)
    const running = await testbed.boot({ command: STUBBORN })
    const paused = await testbed.boot()
    await testbed.backend.pause(paused)
    const { sandbox: exited } = await testbed.run("exit 3")
    const all = [created.identity.sandbox, running, paused, exited]
    await Promise.all(all.map((sandbox) => testbed.backend.remove(sandbox)))
    expect(await testbed.backend.list()).toEqual([])
    await testbed.expectEmpty()
  })
}

const creatingCases = (testbed: ContractTestbed, it: AddCase, atOnce: number): void => {
  it("leaves a running sandbox as it is when it is started again, and refuses to start an ended one", async () => {
    const sandbox = await testbed.boot()
    await testbed.backend.start(sandbox)
    expect(await testbed.state(sandbox)).toBe("running")
    const { sandbox: ended } = await testbed.run("true")
    await expect(testbed.backend.start(ended)).rejects.toMatchObject({
      code: "backend.wrong_state",
    })
  })

  it("makes one sandbox of an id for three callers at the same time", async () => {
    const spec = testbed.specOf()
    const all = await Promise.all([1, 2, 3].map(() => testbed.backend.create(spec)))
    expect(new Set(all.map((each) => each.createdAt)).size).toBe(1)
    expect(await testbed.backend.list()).toHaveLength(1)
    await testbed.backend.start(spec.identity.sandbox)
    expect(await testbed.backend.create(spec)).toMatchObject({ state: "running" })
  })

  it("refuses another configuration under an id that exists", async () => {
    const spec = testbed.specOf()
    await testbed.backend.create(spec)
    const changed = testbed.specOf({ environment: { A: "1" } }, spec.identity.sandbox)
    await expect(testbed.backend.create(changed)).rejects.toMatchObject({
      code: "backend.conflict",
    })
    expect(await testbed.state(spec.identity.sandbox)).toBe("created")
  })

  it(`creates, starts and removes ${atOnce} sandboxes at once`, async () => {
    const specs = Array.from({ length: atOnce }, () => testbed.specOf({ command: IDLE }))
    await Promise.all(
      specs.map(async (spec) => {
        await testbed.backend.create(spec, MANY)
        await testbed.backend.start(spec.identity.sandbox, MANY)
      }),
    )
    const listed = await testbed.backend.list()
    expect(listed.filter((each) => each.state === "running")).toHaveLength(atOnce)
    await Promise.all(specs.map((spec) => testbed.backend.remove(spec.identity.sandbox, MANY)))
    await testbed.expectEmpty()
  }, 200_000)
}
