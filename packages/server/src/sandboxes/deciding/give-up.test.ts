import type { SandboxId } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import { openRows } from "../state/rows.ts"
import { FakeClock } from "../testing/clock.ts"
import { insertRow } from "../testing/rows.ts"
import { storeOfFile } from "../testing/store.ts"
import { openLeases } from "../use/leases.ts"
import { openGiveUp } from "./give-up.ts"

const store = storeOfFile()

const setUp = async (halt?: string) => {
  const clock = new FakeClock()
  const rows = openRows(store.db, clock)
  const leases = await openLeases({ db: store.db, clock, onFree: () => {} })
  const woken: SandboxId[] = []
  const giveUp = openGiveUp({ rows, haltOf: () => halt, wake: (one) => woken.push(one) })
  const sandbox = await insertRow(rows, "ready")
  const use = (subject: string) =>
    leases.acquire({ sandbox, kind: "prompt", source: "prompt", subject, holder: "a" })
  await use("pr-1")
  const reason = "it does not answer"
  return {
    sandbox,
    woken,
    use,
    giveUp: () => giveUp(sandbox, { reason, by: ["pr-1"] }),
    left: async () => [(await rows.get(sandbox))?.phase, (await leases.of(sandbox)).length],
    close: () => leases.close(),
  }
}

it("ends a sandbox that nothing else uses, with the leases that give it up", async () => {
  const { sandbox, giveUp, woken, left, close } = await setUp()
  expect(await giveUp()).toBeUndefined()
  expect([await left(), woken]).toEqual([["stopping", 0], [sandbox]])
  // A second call changes nothing.
  expect(await giveUp()).toBeUndefined()
  close()
})

it("leaves a sandbox up that others use", async () => {
  const { giveUp, woken, left, use, close } = await setUp()
  await use("pr-2")
  expect(await giveUp()).toBe("others use it")
  expect([await left(), woken]).toEqual([["ready", 2], []])
  close()
})

it("leaves a halted sandbox as it is, and says why it is halted", async () => {
  const { giveUp, woken, left, close } = await setUp("the disk is full")
  expect(await giveUp()).toBe("it is halted (the disk is full)")
  expect([await left(), woken]).toEqual([["ready", 1], []])
  close()
})
