import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import { repairedFirst } from "./repaired.ts"
import { AGENT } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { makeRoot, openForTest } from "./testing/store.ts"

const shop = key("shop")

/** A store whose stack has a top that a crash took from the disk, opened as a server opens it. */
const openDamaged = async () => {
  const root = makeRoot()
  const before = await openForTest(root)
  await before.put(shop, null)
  const { top } = await before.ensureTop(shop, AGENT)
  await before.close()
  await rm(join(root, "tops", top), { recursive: true })
  const draft = join(root, "incoming", newId.top())
  await mkdir(draft)
  const opened = await openForTest(root)
  let repairs = 0
  let failures = 0
  const layers = repairedFirst(opened, async () => {
    if (failures > 0) {
      failures -= 1
      throw new Error("the engine does not answer")
    }
    repairs += (await opened.verify()).repairs.length
  })
  return { layers, top, repairs: () => repairs, failNext: () => (failures += 1) }
}

it("repairs a damaged stack before the first operation on it, once for all", async () => {
  const { layers, top, repairs } = await openDamaged()
  const ensured = await Promise.all([layers.ensureTop(shop), layers.ensureTop(shop)])
  expect(ensured[0].top).not.toBe(top)
  expect(ensured[1]).toEqual({ top: ensured[0].top, made: false })
  expect(repairs()).toBe(2)
  await layers.close()
})

it("gives the names of workspaces without a repair", async () => {
  const { layers, repairs } = await openDamaged()
  expect((await layers.findOwnerless()).stacked).toEqual([shop.workspace])
  expect(repairs()).toBe(0)
  await layers.close()
})

it("fails an operation whose repair fails, and repairs for the next one", async () => {
  const { layers, repairs, failNext } = await openDamaged()
  failNext()
  await expect(layers.claimTop(shop, newId.sandbox())).rejects.toThrow("does not answer")
  expect((await layers.ensureTop(shop)).made).toBe(true)
  expect(repairs()).toBe(2)
  await layers.close()
})

it("refuses operations on an unrepaired store that was closed", async () => {
  const { layers, repairs } = await openDamaged()
  await layers.close()
  await expect(layers.freeze(shop)).rejects.toMatchObject({ code: "server.stopping" })
  expect(repairs()).toBe(0)
})
