import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { appendFile, mkdir, readFile, rename, rm, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { LayerId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { afterAll, expect, it } from "vitest"
import { openLayers } from "../open.ts"
import { ID_BASE } from "../testing/ids.ts"
import { key } from "../testing/key.ts"
import { plantPin } from "../testing/pin.ts"
import { makeRoot, openForTest, view, work, workAndFreeze } from "../testing/store.ts"

const shop = key("shop")

/** Two layers, of which the upper one has an opaque directory and a whiteout: made once and copied for every test. */
let prepared: ReturnType<typeof prepare> | undefined
afterAll(async () => {
  if (prepared) rmSync((await prepared).parent, { recursive: true, force: true })
})

const prepare = async () => {
  const parent = mkdtempSync("/dev/shm/berth-layers-")
  const layers = await openLayers({ root: join(parent, "store"), idBase: ID_BASE })
  await layers.put(shop, null)
  const { layer: lower } = await workAndFreeze(layers, shop, "mkdir d; echo one > d/f; echo g > g")
  const { layer: upper } = await workAndFreeze(
    layers,
    shop,
    "rm -r d; mkdir d; echo two > d/g; rm g",
  )
  return { parent, lower, upper }
}

const twoLayers = async () => {
  prepared ??= prepare()
  const { parent, lower, upper } = await prepared
  const root = join(makeRoot(), "store")
  execFileSync("cp", ["-a", join(parent, "store"), root])
  return { root, layers: await openForTest(root), lower, upper }
}

const tree = (root: string, layer: LayerId, ...path: string[]) =>
  join(root, "layers", layer, "tree", ...path)

const rewrite = async (file: string, change: object): Promise<void> =>
  writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, "utf8")), ...change }))

requires("root").describe("verify", () => {
  it("finds nothing wrong with a store that is in order", async () => {
    const { layers } = await twoLayers()
    expect(await layers.verify()).toEqual({
      repairs: [],
      problems: [],
      perhapsFrozen: [],
      checked: { stacks: 1, layers: 2, tops: 0, pins: 0 },
    })
  })

  const CHANGES: readonly [string, (root: string, upper: LayerId) => unknown][] = [
    ["a file was written", (root, upper) => appendFile(tree(root, upper, "d/g"), "more")],
    [
      "a file was written to the same length",
      (root, upper) => writeFile(tree(root, upper, "d/g"), "owt\n"),
    ],
    ["a file was added", (root, upper) => writeFile(tree(root, upper, "new"), "")],
    ["a file was removed", (root, upper) => rm(tree(root, upper, "d/g"))],
    ["a whiteout was removed", (root, upper) => rm(tree(root, upper, "g"))],
    [
      "a file's mode was changed",
      (root, upper) => execFileSync("chmod", ["4755", tree(root, upper, "d/g")]),
    ],
    [
      "a file's owner was changed",
      (root, upper) => execFileSync("chown", ["0", tree(root, upper, "d/g")]),
    ],
    [
      "it was copied without its attributes",
      async (root, upper) => {
        execFileSync("cp", [
          "-dR",
          "--preserve=mode,ownership,timestamps,links",
          tree(root, upper),
          tree(root, upper, "../copy"),
        ])
        await rm(tree(root, upper), { recursive: true })
        await rename(tree(root, upper, "../copy"), tree(root, upper))
      },
    ],
  ]
  it.each(CHANGES)("reports a layer as changed since its freeze when %s", async (_, change) => {
    const { root, layers, upper } = await twoLayers()
    await change(root, upper)
    const { repairs, problems } = await layers.verify()
    expect(repairs).toEqual([])
    expect(problems).toMatchObject([
      { kind: "layer_changed", subject: upper, stacks: ["shop/workspace"] },
    ])
    expect(await layers.verify({ trees: false })).toMatchObject({ problems: [] })
  })

  it("finds nothing wrong with a store that was copied with its attributes", async () => {
    const { root } = await twoLayers()
    const copy = join(makeRoot(), "copy")
    execFileSync("cp", ["-a", root, copy])
    expect(await (await openForTest(copy)).verify()).toMatchObject({ repairs: [], problems: [] })
  })

  it("finds nothing wrong with layers that were read and mounted", async () => {
    const { layers } = await twoLayers()
    await view(layers, shop)
    await work(layers, shop, "mv d e; rm -r e; chmod 700 .")
    expect(await layers.verify()).toMatchObject({ problems: [] })
  })

  it("names a layer that stands on a missing one, and removes nothing", async () => {
    const { root, layers, lower, upper } = await twoLayers()
    await rename(join(root, "layers", lower), join(root, "elsewhere"))
    const { repairs, problems } = await layers.verify()
    expect(repairs).toEqual([])
    expect(problems).toMatchObject([{ kind: "layer_missing", subject: upper }])
    await rename(join(root, "elsewhere"), join(root, "layers", lower))
    expect(await layers.verify()).toMatchObject({ problems: [] })
  })

  it("names a layer whose files are gone", async () => {
    const { root, layers, lower } = await twoLayers()
    await rm(tree(root, lower), { recursive: true })
    expect((await layers.verify()).problems).toMatchObject([
      { kind: "tree_missing", subject: lower },
    ])
  })

  it("removes nothing at all while a record cannot be read", async () => {
    const { root, layers, upper } = await twoLayers()
    const pin = await plantPin(root, upper)
    await layers.remove(shop)
    await writeFile(join(root, "pins", `${pin}.json`), "{")
    await expect(layers.collect()).rejects.toMatchObject({ code: "layers.damaged" })
    const { repairs, problems } = await layers.verify()
    expect(repairs).toEqual([])
    expect(problems).toMatchObject([
      { kind: "record_unreadable", subject: pin },
      { kind: "record_unreadable", subject: "collect" },
    ])
    expect(readdirSync(join(root, "layers"))).toHaveLength(2)
  })

  it("keeps the files of a top whose record is gone", async () => {
    const { root, layers } = await twoLayers()
    const { top } = await layers.ensureTop(shop)
    await rm(join(root, "tops", top, "top.json"))
    const { problems } = await layers.verify()
    expect(problems).toContainEqual(
      expect.objectContaining({ subject: top, stacks: ["shop/workspace"] }),
    )
    expect(readdirSync(join(root, "tops"))).toEqual([top])
    await expect(layers.ensureTop(shop)).rejects.toMatchObject({ code: "layers.damaged" })
  })

  it("forgets a top that is gone from the disk, so that its stack works again", async () => {
    const { root, layers } = await twoLayers()
    const { top } = await layers.ensureTop(shop)
    await rm(join(root, "tops", top), { recursive: true })
    await expect(layers.ensureTop(shop)).rejects.toMatchObject({ code: "layers.damaged" })
    expect((await layers.verify()).repairs).toMatchObject([
      { kind: "forgot_top", subject: "shop/workspace" },
    ])
    expect(await work(layers, shop, "cat d/g")).toBe("two\n")
  })

  it("removes unknown entries of incoming, trash and pins", async () => {
    const { root, layers } = await twoLayers()
    await mkdir(join(root, "incoming", "anything", "deep"), { recursive: true })
    await mkdir(join(root, "trash", "anything"))
    await writeFile(join(root, "pins", "x.json.new"), "{")
    expect((await layers.verify()).repairs).toMatchObject([
      { kind: "removed_partial", subject: "anything" },
      { kind: "removed_leftover", subject: "trash/anything" },
      { kind: "removed_leftover", subject: "pins/x.json.new" },
    ])
    expect(await layers.verify()).toMatchObject({ repairs: [] })
  })

  it("leaves alone the layer that a flatten of the same process is making", async () => {
    const { root, lower } = await twoLayers()
    let report: unknown
    const layers = await openLayers({
      root,
      idBase: ID_BASE,
      at: async (step) => {
        if (step === "flatten.copied") report = await layers.verify({ trees: false })
      },
    })
    await layers.flatten(shop)
    expect(report).toMatchObject({ repairs: [], problems: [] })
    expect((await layers.collect()).layers).toContain(lower)
  })

  it("finds nothing wrong with a record that is older than its layer", async () => {
    const { root, layers, upper } = await twoLayers()
    await utimes(join(root, "layers", upper, "layer.json"), 0, 0)
    expect(await layers.verify()).toMatchObject({ problems: [] })
  })
})

requires("root").describe("a layer of another kind", () => {
  it("is not mounted, and verify names it: the other flavour", async () => {
    const { root, layers, upper } = await twoLayers()
    await layers.ensureTop(shop)
    await rewrite(join(root, "layers", upper, "layer.json"), { flavour: "user" })
    const wrong = { code: "layers.wrong_flavour" }
    await expect(layers.claimTop(shop, "sb-00000000000000000000" as never)).rejects.toMatchObject(
      wrong,
    )
    expect((await layers.verify()).problems).toContainEqual(
      expect.objectContaining({ kind: "layer_foreign", subject: upper }),
    )
  })

  it("is not mounted, and verify names it: another range of ids", async () => {
    const { root, layers, lower } = await twoLayers()
    await layers.ensureTop(shop)
    await rewrite(join(root, "layers", lower, "layer.json"), { idBase: 100_000 })
    const wrong = { code: "layers.wrong_ids", details: { found: 100_000, wanted: ID_BASE } }
    await expect(layers.claimTop(shop, "sb-00000000000000000000" as never)).rejects.toMatchObject(
      wrong,
    )
    expect((await layers.verify()).problems).toContainEqual(
      expect.objectContaining({ kind: "layer_foreign", subject: lower }),
    )
  })

  it("keeps its store from being opened with other ids or the other flavour", async () => {
    const { root } = await twoLayers()
    await expect(openLayers({ root, idBase: 0 })).rejects.toMatchObject({
      code: "layers.wrong_ids",
    })
    await expect(openLayers({ root, idBase: ID_BASE, flavour: "user" })).rejects.toMatchObject({
      code: "layers.wrong_flavour",
    })
  })
})
