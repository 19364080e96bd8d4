import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { key, openForTest, work, workAndFreeze } from "./testing/store.ts"

requires("root").describe("freeze", () => {
  it("makes a layer of a stopped sandbox's top, on which the next top shows the same", async () => {
    const layers = await openForTest()
    const shop = key("shop")
    await layers.put(shop, null)
    const { layer, made } = await workAndFreeze(layers, shop, "mkdir d; echo one > d/f")
    expect(made).toBe(true)
    expect(await work(layers, shop, "cat d/f; stat -c %u:%g .")).toMatch(/^one\n/)
    const { stacks } = await layers.list()
    expect(stacks).toMatchObject([{ workspace: "shop", name: "workspace", layers: [layer] }])
  })
})
