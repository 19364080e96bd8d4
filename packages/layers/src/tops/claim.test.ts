import { readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { mountedBy } from "../claims/mounted.ts"
import { key } from "../testing/key.ts"
import { inMount, keepMounted } from "../testing/mount.ts"
import { makeRoot, openForTest } from "../testing/store.ts"

const shop = key("shop")

const storeWithTop = async () => {
  const root = makeRoot()
  const layers = await openForTest(root)
  await layers.put(shop, null)
  const { top } = await layers.ensureTop(shop)
  return { root, layers, top }
}

requires("root").describe("a top", () => {
  it("is given to one sandbox at a time", async () => {
    const { layers, top } = await storeWithTop()
    const [first, second] = [newId.sandbox(), newId.sandbox()]
    await layers.claimTop(shop, first)
    await expect(layers.claimTop(shop, second)).rejects.toMatchObject({
      code: "layers.top_in_use",
      details: { sandbox: first },
    })
    await layers.releaseTop(top, first)
    expect(await layers.claimTop(shop, second)).toMatchObject({ top })
  })

  it("is given to one of eight sandboxes that claim it at once", async () => {
    const { layers } = await storeWithTop()
    const asked = await Promise.allSettled(
      Array.from({ length: 8 }, () => layers.claimTop(shop, newId.sandbox())),
    )
    expect(asked.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  })

  it("stays claimed when the server restarts", async () => {
    const { root, layers } = await storeWithTop()
    const sandbox = newId.sandbox()
    await layers.claimTop(shop, sandbox)
    const restarted = await openForTest(root)
    await expect(restarted.claimTop(shop, newId.sandbox())).rejects.toMatchObject({
      code: "layers.top_in_use",
    })
    expect(await restarted.claimTop(shop, sandbox)).toBeDefined()
  })

  it("is taken over from a sandbox that is gone, and not from one that lives", async () => {
    const { layers } = await storeWithTop()
    const [first, second] = [newId.sandbox(), newId.sandbox()]
    await layers.claimTop(shop, first)
    const asked: string[] = []
    const answer = (alive: boolean) => (sandbox: string) => {
      asked.push(sandbox)
      return alive
    }
    await expect(layers.claimTop(shop, second, answer(true))).rejects.toMatchObject({
      code: "layers.top_in_use",
    })
    await layers.claimTop(shop, second, answer(false))
    expect(asked).toEqual([first, first])
  })

  it("is taken over without asking when its claim is from before a reboot", async () => {
    const { root, layers, top } = await storeWithTop()
    await layers.claimTop(shop, newId.sandbox())
    const file = join(root, "tops", top, "claim.json")
    const claim = JSON.parse(await readFile(file, "utf8"))
    await writeFile(file, JSON.stringify({ ...claim, bootId: "another" }))
    expect(await layers.claimTop(shop, newId.sandbox())).toMatchObject({ top })
  })

  it.each(["", "{"])(
    "is given away when its claim reads %j, as after a power loss",
    async (text) => {
      const { root, layers, top } = await storeWithTop()
      await layers.claimTop(shop, newId.sandbox())
      const file = join(root, "tops", top, "claim.json")
      await writeFile(file, text)
      expect(await layers.collect()).toEqual({ layers: [], tops: [] })
      const restarted = await openForTest(root)
      const second = newId.sandbox()
      expect(await restarted.claimTop(shop, second)).toMatchObject({ top })
      expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({ sandbox: second })

      await writeFile(file, text)
      expect(await restarted.verify({ isAlive: () => true })).toMatchObject({
        problems: [],
        repairs: [{ kind: "released_claim", subject: top, said: expect.stringContaining("power") }],
      })
      await restarted.freeze(shop)
    },
  )

  it("keeps a claim that cannot be read while the kernel shows the top mounted", async () => {
    const { root, layers, top } = await storeWithTop()
    const { mount } = await layers.claimTop(shop, newId.sandbox())
    const running = await keepMounted(mount)
    await writeFile(join(root, "tops", top, "claim.json"), "")
    await expect(layers.claimTop(shop, newId.sandbox(), () => false)).rejects.toBeDefined()
    expect(await layers.verify({ isAlive: () => false })).toMatchObject({
      problems: [
        { kind: "record_unreadable", subject: top },
        { kind: "record_unreadable", subject: "collect" },
      ],
      repairs: [],
    })
    await running.end()
  })

  it("is given to no sandbox while the kernel shows it mounted, whatever the claims say", async () => {
    const { layers, top } = await storeWithTop()
    const sandbox = newId.sandbox()
    const { mount } = await layers.claimTop(shop, sandbox)
    const running = await keepMounted(mount)
    const inUse = { code: "layers.top_in_use", details: { pids: expect.any(Array) } }
    await expect(layers.claimTop(shop, newId.sandbox(), () => false)).rejects.toMatchObject(inUse)
    await expect(layers.claimTop(shop, sandbox)).rejects.toMatchObject(inUse)
    await expect(layers.releaseTop(top, sandbox)).rejects.toMatchObject(inUse)
    expect(await layers.verify({ isAlive: () => false })).toMatchObject({ repairs: [] })
    await running.end()
    await layers.releaseTop(top, sandbox)
    await layers.releaseTop(top, sandbox)
  })

  it("is released when the last program that has a copy of its mount ends", async () => {
    const { layers, top } = await storeWithTop()
    const sandbox = newId.sandbox()
    const { mount } = await layers.claimTop(shop, sandbox)
    const passing = await keepMounted(mount)
    const released = layers.releaseTop(top, sandbox).catch((thrown: unknown) => thrown)
    // The release has looked by the end of the second look.
    for (const _ of [1, 2]) expect(await mountedBy(top)).toEqual([expect.any(Number)])
    await passing.end()
    expect(await released).toBeUndefined()
    await layers.claimTop(shop, newId.sandbox())
  })

  it("cannot be released by another sandbox", async () => {
    const { layers, top } = await storeWithTop()
    await layers.claimTop(shop, newId.sandbox())
    await expect(layers.releaseTop(top, newId.sandbox())).rejects.toMatchObject({
      code: "layers.top_in_use",
    })
  })

  it("is neither frozen, replaced nor removed while a sandbox has it", async () => {
    const { layers, top } = await storeWithTop()
    const sandbox = newId.sandbox()
    await layers.claimTop(shop, sandbox)
    const inUse = { code: "layers.top_in_use" }
    await expect(layers.freeze(shop)).rejects.toMatchObject(inUse)
    await expect(layers.put(shop, null, { replace: true })).rejects.toMatchObject(inUse)
    await expect(layers.remove(shop)).rejects.toMatchObject(inUse)
    await layers.releaseTop(top, sandbox)
    await layers.remove(shop)
    expect(await layers.collect()).toEqual({ layers: [], tops: [top] })
  })

  it("is kept while a sandbox has it, even if its stack is lost", async () => {
    const { root, layers, top } = await storeWithTop()
    const sandbox = newId.sandbox()
    await layers.claimTop(shop, sandbox)
    await rm(join(root, "stacks", "shop"), { recursive: true })
    expect(await layers.collect()).toEqual({ layers: [], tops: [] })
    await layers.releaseTop(top, sandbox)
    expect(await layers.collect()).toEqual({ layers: [], tops: [top] })
  })

  it("keeps its files when its sandbox is replaced", async () => {
    const { layers, top } = await storeWithTop()
    for (const line of ["one", "two"]) {
      const sandbox = newId.sandbox()
      expect(await layers.ensureTop(shop)).toEqual({ top, made: false })
      const { mount } = await layers.claimTop(shop, sandbox)
      await inMount(mount, `echo ${line} >> file`, 0)
      await layers.releaseTop(top, sandbox)
    }
    const { mount } = await layers.claimTop(shop, newId.sandbox())
    expect(await inMount(mount, "cat file", 0)).toBe("one\ntwo\n")
  })
})
