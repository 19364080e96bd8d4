import { createReadStream } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import type { Layers } from "./layers.ts"
import { openLayers } from "./open.ts"
import { exportTo, importFrom } from "./testing/archive.ts"
import { AGENT, ID_BASE } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { HOST_ROOT, inMount } from "./testing/mount.ts"
import { makeScenario } from "./testing/scenario.ts"
import {
  makeRoot,
  makeRootOnDisk,
  openForTest,
  view,
  work,
  workAndFreeze,
} from "./testing/store.ts"

const shop = key("shop")
const fork = key("fork")

/** Contents of every file, by path, as the host's root reads them. */
const filesOf = async (layers: Layers, stack: StackKey): Promise<string> => {
  await layers.ensureTop(stack, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(stack, sandbox)
  const shown = await inMount(
    mount,
    "find . -type f -size -1000 -printf '%P\\n' | LC_ALL=C sort | grep -av caf | while read f; do printf '%s: %s\\n' \"$f\" \"$(cat \"$f\" | tr '\\n' ' ')\"; done",
    HOST_ROOT,
  )
  await layers.releaseTop(top, sandbox)
  return shown
}

const SHOWN = `gone/y: back
kept/b: b
kept/c: c
name1: one changed
name2: one
nobody: secret
pair1: pair
pair2: pair
shut/s: s
swapped/new: new
to-file: f
very/deep/tree/there/file: deep
`.replaceAll("\n", " \n")

/** Five megabytes of which nearly all is a hole take less than a hundred kilobytes. */
const HOLES = "test $(stat -c %b holes) -lt 200 && echo holes"

/** The same files in the store of another installation, with other ids. */
const carryOver = async (layers: Layers, stack: StackKey, idBase: number): Promise<Layers> => {
  const root = makeRootOnDisk()
  const other = await openLayers({ root, idBase })
  const { layer } = await layers.freeze(stack)
  const file = join(root, "archive.tar.zst")
  await exportTo(layers, layer, file)
  const carried = await importFrom(other, createReadStream(file))
  await other.put(stack, carried.layer)
  await other.unpin(carried.pin)
  return other
}

requires("root").describe("a stack of layers that delete, replace and move", () => {
  it("shows the files that are left, and none that was deleted", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await makeScenario(layers, shop)
    expect(await filesOf(layers, shop)).toBe(SHOWN)
    expect(
      await work(layers, shop, "ls -A swapped moved-away; test ! -e to-dir; test ! -e moved"),
    ).toBe("moved-away:\n\nswapped:\nnew\npipe\n")
  })

  it("shows the same to a fork, whose changes stay its own", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await makeScenario(layers, shop)
    const before = await view(layers, shop)
    const { layer } = await layers.freeze(shop)
    await layers.put(fork, layer)
    expect(await view(layers, fork)).toBe(before)
    await workAndFreeze(layers, fork, "rm -r very; mv kept kept2")
    expect(await view(layers, shop)).toBe(before)
    expect(await view(layers, fork)).not.toBe(before)
  })

  it("shows the same when it is flattened", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await makeScenario(layers, shop)
    const before = await view(layers, shop)
    const { layer, made } = await layers.flatten(shop)
    expect(made).toBe(true)
    expect(await view(layers, shop)).toBe(before)
    expect(await work(layers, shop, HOLES)).toBe("holes\n")
    const { stacks } = await layers.list()
    expect(stacks).toMatchObject([{ layers: [layer] }])
    expect(await layers.collect()).toMatchObject({
      layers: [expect.any(String), expect.any(String), expect.any(String)],
    })
    expect(await view(layers, shop)).toBe(before)
  })

  it("shows the same when it is flattened below a top that moves, replaces and deletes its files", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await makeScenario(layers, shop)
    await work(
      layers,
      shop,
      "mv very away; mv away/deep/tree/there back; rm -r swapped; mkdir swapped; echo s > swapped/s; rm name1; echo more >> kept/b; ln pair1 pair3",
    )
    const before = await view(layers, shop)
    const { layer } = await layers.flatten(shop)
    expect((await layers.list()).stacks).toMatchObject([{ layers: [layer] }])
    expect((await layers.collect()).layers).toHaveLength(3)
    expect(await view(layers, shop)).toBe(before)
    await layers.freeze(shop)
    expect(await view(layers, shop)).toBe(before)
    expect(await layers.verify()).toMatchObject({ repairs: [], problems: [] })
  })

  it("shows the same in another installation after export and import, flattened or not", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await makeScenario(layers, shop)
    const before = await view(layers, shop)
    const otherBase = ID_BASE - 65_536
    const other = await carryOver(layers, shop, otherBase)
    expect(await view(other, shop, otherBase)).toBe(before)
    await other.flatten(shop)
    expect(await view(other, shop, otherBase)).toBe(before)
    expect(await other.verify()).toMatchObject({ problems: [] })
    expect(await work(other, shop, HOLES)).toBe("holes\n")
  })

  it("shows the same 30 layers deep, with a change in each", async () => {
    const layers = await openForTest(makeRoot())
    await layers.put(shop, null)
    await workAndFreeze(
      layers,
      shop,
      "mkdir d; for i in $(seq 30); do mkdir d$i; echo $i > d$i/f; done",
    )
    for (let depth = 2; depth <= 30; depth += 1) {
      await workAndFreeze(
        layers,
        shop,
        `mv d${depth} d/m${depth}; echo ${depth} > last; rm -r d1; mkdir d1; touch d1/${depth}`,
      )
    }
    const { stacks } = await layers.list()
    expect(stacks).toMatchObject([{ flattenAdvised: true }])
    expect(stacks[0]?.layers).toHaveLength(30)
    expect(await work(layers, shop, "cat last d/m2/f d/m30/f; ls d1; ls d | wc -l")).toBe(
      "30\n2\n30\n30\n29\n",
    )
    const before = await view(layers, shop)
    await layers.flatten(shop)
    expect(await view(layers, shop)).toBe(before)
  })
})

requires("root").describe("a store", () => {
  it("leaves nothing mounted, and no unfinished layer", async () => {
    const root = makeRootOnDisk()
    const layers = await openForTest(root)
    await makeScenario(layers, shop)
    await layers.flatten(shop)
    expect(await readdir(join(root, "incoming"))).toEqual([])
    expect(await readFile("/proc/self/mountinfo", "utf8")).not.toContain(root)
  })
})
