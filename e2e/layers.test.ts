import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { openLayers } from "@berth/layers/open"
import { Slug } from "@berth/protocol/ids"
import { LayersListing, LayersReport } from "@berth/protocol/layer"
import { lockDataDirectory } from "@berth/server/store/lock"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"

const BERTH = fileURLToPath(new URL("../bin/berth", import.meta.url))
const ID_BASE = 1_900_000_000

const key = { workspace: Slug.parse("shop"), name: Slug.parse("workspace") }

/** Makes a data directory with a stack of one layer, on which a top stands. */
const makeStack = async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-layers-test-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const root = join(dataDir, "layers")
  const layers = await openLayers({ root, idBase: ID_BASE })
  await layers.put(key, null)
  const { top } = await layers.ensureTop(key)
  writeFileSync(join(root, "tops", top, "tree", "hello"), "hello\n")
  const { layer } = await layers.freeze(key)
  await layers.ensureTop(key)
  return { dataDir, root, layer }
}

const berth = (dataDir: string, ...args: string[]) => {
  const { PATH = "" } = process.env
  return spawnSync(BERTH, [...args, "--data-dir", dataDir], { encoding: "utf8", env: { PATH } })
}

requires("root").describe("berth layers", () => {
  it("shows stacks with their sizes, and the stack that stands on a layer", async () => {
    const { dataDir, layer } = await makeStack()
    const { stdout, status } = berth(dataDir, "layers")
    expect(status).toBe(0)
    expect(stdout).toMatch(/^shop\/workspace {2}\d+ kB: 1 layers, top tp-\S+ of \d+ kB$/m)
    expect(stdout).toMatch(new RegExp(`^${layer} .*stood on by .*shop/workspace`, "m"))
    const listing = LayersListing.parse(JSON.parse(berth(dataDir, "layers", "--json").stdout))
    expect(listing.stacks).toMatchObject([{ ...key, layers: [layer] }])
  })

  it("names a layer that was changed when it verifies, and fails", async () => {
    const { dataDir, root, layer } = await makeStack()
    rmSync(join(root, "layers", layer, "tree", "hello"))
    const { stdout, status } = berth(dataDir, "layers", "verify", "--json")
    expect(status).toBe(1)
    const report = LayersReport.parse(JSON.parse(stdout))
    expect(report.problems).toMatchObject([{ kind: "layer_changed", subject: layer }])
    expect(berth(dataDir, "layers", "verify").stdout).toContain(`problem   ${layer}: `)
  })

  it("does not verify while a server holds the data directory", async () => {
    const { dataDir } = await makeStack()
    const lock = await lockDataDirectory(dataDir)
    onTestFinished(() => lock.release())
    const { stderr, status } = berth(dataDir, "layers", "verify", "--json")
    expect(status).toBe(1)
    expect(JSON.parse(stderr).error).toMatchObject({ code: "store.locked" })
    expect(berth(dataDir, "layers").status).toBe(0)
  })
})
