import { createReadStream } from "node:fs"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { expect } from "vitest"
import { exportTo, importFrom } from "./testing/archive.ts"
import { key } from "./testing/key.ts"
import { makeRoot, openForTest, work, workAndFreeze } from "./testing/store.ts"

const shop = key("shop")
const FILES = sized("files of a layer", { few: 5_000, all: 100_000 })
/** Far above the time that this test takes on two busy cores. */
const BUDGET_MS = 120_000

const MAKE = `
const fs = require("node:fs")
for (let d = 0; d < 100; d++) {
  fs.mkdirSync("d" + d)
  for (let f = 0; f < ${FILES / 100}; f++) fs.writeFileSync("d" + d + "/f" + f, "")
}
`

requires("root").it(
  `keeps ${FILES} files through freeze, flatten, export, import and verify`,
  async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    await workAndFreeze(layers, shop, `'${process.execPath}' -e '${MAKE}'`)
    await workAndFreeze(layers, shop, "rm -r d0; mv d1 e1; rm -r d2; mkdir d2; echo new > d2/new")
    const count = "find . -mindepth 1 ! -type d | wc -l; ls d2"
    const shown = await work(layers, shop, count)
    await layers.freeze(shop)
    await layers.flatten(shop)
    expect(await work(layers, shop, count)).toBe(shown)
    const { layer } = await layers.freeze(shop)
    const archive = join(root, "archive.tar.zst")
    await exportTo(layers, layer, archive)
    const other = await openForTest(makeRoot())
    const carried = await importFrom(other, createReadStream(archive))
    await other.put(shop, carried.layer)
    await other.unpin(carried.pin)
    expect(await work(other, shop, count)).toBe(shown)
    expect(shown).toBe(`${(FILES / 100) * 98 + 1}\nnew\n`)
    expect(await other.verify()).toMatchObject({ repairs: [], problems: [] })
    await layers.remove(shop)
    await layers.collect()
  },
  BUDGET_MS,
)
