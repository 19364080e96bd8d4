import { existsSync } from "node:fs"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { key } from "./testing/key.ts"
import { makeRootOnDisk, openForTest, work, workAndFreeze } from "./testing/store.ts"

const shop = key("shop")

requires("root").describe("freeze", () => {
  it("makes a layer of a stopped sandbox's top, on which the next top shows the same", async () => {
    const root = makeRootOnDisk()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    const { layer, made } = await workAndFreeze(layers, shop, "mkdir d; echo one > d/f")
    expect(made).toBe(true)
    expect(existsSync(join(root, "layers", layer, "work"))).toBe(false)
    expect(await work(layers, shop, "cat d/f; touch allowed")).toBe("one\n")
    const { stacks, layers: listed } = await layers.list()
    expect(stacks).toMatchObject([{ workspace: "shop", name: "workspace", layers: [layer] }])
    expect(listed).toMatchObject([
      { id: layer, origin: "freeze", files: 2, heldBy: ["shop/workspace", stacks[0]?.top?.id] },
    ])
  })

  it("makes one layer for two callers at once", async () => {
    const layers = await openForTest()
    await layers.put(shop, null)
    await work(layers, shop, "echo one > f")
    const results = await Promise.all([layers.freeze(shop), layers.freeze(shop)])
    expect(results.map(({ made }) => made).sort()).toEqual([false, true])
    expect(results[0]?.layer).toBe(results[1]?.layer)
    expect((await layers.list()).layers).toHaveLength(1)
  })

  it("makes no layer of a top in which nothing was changed", async () => {
    const layers = await openForTest()
    await layers.put(shop, null)
    const { layer } = await workAndFreeze(layers, shop, "echo one > f")
    expect(await workAndFreeze(layers, shop, "cat f")).toEqual({ layer, made: false })
    expect(await workAndFreeze(layers, shop, "chmod 700 .")).toMatchObject({ made: true })
    expect(await work(layers, shop, "stat -c %a .")).toBe("700\n")
  })

  it("refuses an unknown stack, and a stack that has never had a top", async () => {
    const layers = await openForTest()
    await expect(layers.freeze(shop)).rejects.toMatchObject({ code: "layers.unknown" })
    await layers.put(shop, null)
    await expect(layers.freeze(shop)).rejects.toMatchObject({ code: "layers.unknown" })
  })
})
