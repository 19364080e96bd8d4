import { readdirSync } from "node:fs"
import { join } from "node:path"
import { Writable } from "node:stream"
import { newId, type TopId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { expect, it } from "vitest"
import { openLayers } from "./open.ts"
import { AGENT, ID_BASE } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { keepMounted, type RunningMount } from "./testing/mount.ts"
import { plantPin } from "./testing/pin.ts"
import { snapshotOne } from "./testing/snapshot-one.ts"
import { makeRoot, openForTest, view, work, workAndFreeze } from "./testing/store.ts"

const shop = key("shop")
const WORKSPACES = sized("workspaces that work at the same time", { few: 2, all: 4 })

requires("root").describe("a store in use", () => {
  it(`loses nothing of ${WORKSPACES} workspaces that work while it is verified and collected`, async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    let done = false
    const problems: unknown[] = []
    const collecting = (async () => {
      while (!done) {
        const [report] = await Promise.all([layers.verify(), layers.collect(), layers.list()])
        problems.push(...report.problems)
      }
    })()
    const still = { freeze: async () => {}, thaw: async () => {} }
    await Promise.all(
      Array.from({ length: WORKSPACES }, async (_, number) => {
        const mine = key(`w${number}`)
        await layers.put(mine, null)
        for (let round = 1; round <= 3; round += 1) {
          await workAndFreeze(layers, mine, `echo ${round} > f${round}`)
          await layers.ensureTop(mine, AGENT)
          const sandbox = newId.sandbox()
          const { top } = await layers.claimTop(mine, sandbox)
          const { layer, pin } = await snapshotOne(layers, mine, {
            sandbox,
            reason: "test",
            ...still,
          })
          await layers.put(key(`f${number}-${round}`), layer)
          await layers.unpin(pin)
          await layers.releaseTop(top, sandbox)
        }
        await layers.flatten(mine)
      }),
    )
    done = true
    await collecting
    expect(problems).toEqual([])
    for (let number = 0; number < WORKSPACES; number += 1) {
      expect(await work(layers, key(`w${number}`), "cat f1 f2 f3")).toBe("1\n2\n3\n")
      expect(await work(layers, key(`f${number}-2`), "ls")).toBe("f1\nf2\n")
    }
    expect(await layers.verify()).toMatchObject({ problems: [] })
    expect(readdirSync(join(root, "incoming"))).toEqual([])
  })

  it("keeps the layers of a sandbox that starts while its stack is flattened, until it has ended", async () => {
    const root = makeRoot()
    const first = newId.sandbox()
    let running: RunningMount | undefined
    const layers = await openLayers({
      root,
      idBase: ID_BASE,
      at: async (step) => {
        if (step !== "flatten.copied") return
        await layers.ensureTop(shop, AGENT)
        const claimed = await layers.claimTop(shop, first)
        running = await keepMounted(claimed.mount, "mv f moved; mv d e; rm g; echo new > e/h")
      },
    })
    await layers.put(shop, null)
    for (const step of ["echo 1 > f; mkdir d; echo 3 > d/i", "echo 2 > g"])
      await workAndFreeze(layers, shop, step)
    const { layer } = await layers.flatten(shop)
    const [{ layers: kept, top } = {}] = (await layers.list()).stacks
    expect(kept).toHaveLength(2)
    expect(await layers.collect()).toEqual({ layers: [], tops: [] })
    await running?.end()
    await layers.releaseTop(top?.id as TopId, first)
    expect(await work(layers, shop, "cat moved e/*; ls")).toBe("1\nnew\n3\ne\nmoved\n")
    expect((await layers.list()).stacks).toMatchObject([{ layers: [layer], top: { id: top?.id } }])
    expect((await layers.collect()).layers).toEqual(kept?.toSorted())
    expect(await work(layers, shop, "cat moved e/*; ls")).toBe("1\nnew\n3\ne\nmoved\n")
    expect(await layers.verify()).toMatchObject({ repairs: [], problems: [] })
  })

  it("keeps a layer that nothing else holds until its export has ended", async () => {
    const layers = await openForTest()
    await layers.put(shop, null)
    const { layer } = await workAndFreeze(layers, shop, "echo 1 > f")
    await layers.remove(shop)
    const during: unknown[] = []
    const sink = new Writable({
      write: (_, __, done) => {
        layers.collect().then((collected) => {
          during.push(...collected.layers)
          done()
        }, done)
      },
    })
    await layers.exportTrees([{ name: shop.name, layer }], sink, { isBooted: true })
    expect(during).toEqual([])
    expect((await layers.collect()).layers).toEqual([layer])
  })

  it("leaves a stack as it was when its flatten is cancelled", async () => {
    const root = makeRoot()
    const stop = new AbortController()
    const layers = await openLayers({
      root,
      idBase: ID_BASE,
      at: (step) => {
        if (step === "flatten.prepared") stop.abort(new Error("no longer wanted"))
      },
    })
    await layers.put(shop, null)
    for (const step of ["echo 1 > f", "echo 2 > g"]) await workAndFreeze(layers, shop, step)
    const before = await view(layers, shop)
    await expect(layers.flatten(shop, { signal: stop.signal })).rejects.toThrow("no longer wanted")
    expect(await view(layers, shop)).toBe(before)
    expect(await layers.verify()).toMatchObject({ problems: [] })
    expect(readdirSync(join(root, "incoming"))).toEqual([])
  })
})

requires("root").describe("a stack", () => {
  it("goes back to an earlier layer, and later layers are collected unless they are pinned", async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    const first = await workAndFreeze(layers, shop, "echo 1 > f")
    const second = await workAndFreeze(layers, shop, "echo 2 > f")
    const pin = await plantPin(root, second.layer)
    await work(layers, shop, "echo 3 > f")
    await expect(layers.put(shop, first.layer)).rejects.toMatchObject({ code: "layers.exists" })
    await layers.put(shop, first.layer, { replace: true })
    expect(await work(layers, shop, "cat f")).toBe("1\n")
    expect((await layers.collect()).layers).toEqual([])
    await layers.unpin(pin)
    expect((await layers.collect()).layers).toEqual([second.layer])
    expect(await work(layers, shop, "cat f")).toBe("1\n")
  })

  it("is not put on a layer that does not exist, and can be removed twice", async () => {
    const layers = await openForTest()
    await expect(layers.put(shop, newId.layer())).rejects.toMatchObject({ code: "layers.unknown" })
    await expect(layers.ensureTop(shop)).rejects.toMatchObject({ code: "layers.unknown" })
    await layers.remove(shop)
    await layers.put(shop, null)
    await layers.remove(shop)
    await layers.remove(shop)
    expect(await layers.list()).toMatchObject({ stacks: [], layers: [], pins: [], bytes: 0 })
  })

  it("leaves its layers to a fork when it is removed", async () => {
    const layers = await openForTest()
    await layers.put(shop, null)
    const { layer } = await workAndFreeze(layers, shop, "echo 1 > f")
    await layers.put(key("fork"), layer)
    await layers.put(key("fork", "home"), null)
    await layers.remove(shop)
    expect((await layers.collect()).layers).toEqual([])
    const { stacks, layers: listed } = await layers.list()
    expect(stacks.map(({ workspace, name }) => `${workspace}/${name}`)).toEqual([
      "fork/home",
      "fork/workspace",
    ])
    expect(listed).toMatchObject([{ id: layer, heldBy: ["fork/workspace"] }])
    expect(await work(layers, key("fork"), "cat f")).toBe("1\n")
  })
})
