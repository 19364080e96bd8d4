import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { type LayerId, newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { MAX_LAYERS } from "../stacks/depth.ts"
import { ID_BASE } from "../testing/ids.ts"
import { key } from "../testing/key.ts"
import { inMount } from "../testing/mount.ts"
import { makeRoot, openForTest, workAndFreeze } from "../testing/store.ts"

const shop = key("shop")

/** Makes a stack of many layers on disk, each with one file, as freezes would have made it. */
const deepStack = async (root: string, depth: number): Promise<LayerId> => {
  const parents: LayerId[] = []
  for (let number = 1; number <= depth; number += 1) {
    const id = newId.layer()
    const tree = join(root, "layers", id, "tree")
    await mkdir(tree, { recursive: true })
    await writeFile(join(tree, `f${number}`), "")
    const record = {
      version: 1,
      id,
      flavour: "trusted",
      idBase: ID_BASE,
      parents,
      origin: "freeze",
      createdAt: new Date().toISOString(),
      size: { bytes: 0, files: 1 },
      summary: "0".repeat(64),
    }
    await writeFile(join(root, "layers", id, "layer.json"), JSON.stringify(record))
    parents.push(id)
  }
  return parents.at(-1) as LayerId
}

requires("root").describe("the mount of a top", () => {
  it(`takes ${MAX_LAYERS} layers in a store with a long path, and refuses more`, async () => {
    const root = join(makeRoot(), ...Array.from({ length: 12 }, () => "a-rather-long-name"))
    const layers = await openForTest(root)
    await layers.put(shop, await deepStack(root, MAX_LAYERS))
    await layers.ensureTop(shop)
    const { mount } = await layers.claimTop(shop, newId.sandbox())
    expect(await inMount(mount, "ls | wc -l")).toBe(`${MAX_LAYERS}\n`)
    const deeper = key("deeper")
    await layers.put(deeper, await deepStack(root, MAX_LAYERS + 1))
    await expect(layers.ensureTop(deeper)).rejects.toMatchObject({ code: "layers.too_deep" })
    await layers.flatten(deeper)
    expect(await layers.ensureTop(deeper)).toMatchObject({ made: true })
  })

  it("names every option that decides the meaning of layers, and no path that needs escaping", async () => {
    const root = join(makeRoot(), "odd, name: with \\ all")
    const layers = await openForTest(root)
    await layers.put(shop, null)
    const { layer } = await workAndFreeze(layers, shop, "echo one > f")
    const { top } = await layers.ensureTop(shop)
    const { mount } = await layers.claimTop(shop, newId.sandbox())
    expect(mount).toMatchObject({
      cwd: root,
      lower: [`layers/${layer}/tree`],
      upper: `tops/${top}/tree`,
      work: `tops/${top}/work`,
    })
    expect(mount.options).toEqual([
      ...["redirect_dir=on", "index=off", "metacopy=off", "nfs_export=off", "xino=off"],
      ...[`lowerdir=layers/${layer}/tree`, `upperdir=tops/${top}/tree`, `workdir=tops/${top}/work`],
    ])
    expect(await inMount(mount, "cat f")).toBe("one\n")
  })
})
