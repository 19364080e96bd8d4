import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { createReadStream, mkdtempSync, rmSync } from "node:fs"
import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Layers } from "./layers.ts"
import { openLayers } from "./open.ts"
import { exportTo, importFrom } from "./testing/archive.ts"
import { ID_BASE } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { makeScenario } from "./testing/scenario.ts"
import { makeRoot, openForTest, view, work, workAndFreeze } from "./testing/store.ts"

const shop = key("shop")
const other = key("other")
const SANDBOX = newId.sandbox()

/** A store as it is before the operation, made once and copied for every crash. */
interface Prepared {
  readonly root: string
  readonly archive: string
  readonly shown: string
}

/** A workspace with three layers and changes on its top, one without a top, and layers that nothing keeps. */
const prepare = async (parent: string): Promise<Prepared> => {
  const root = join(parent, "store")
  const layers = await openLayers({ root, idBase: ID_BASE })
  await makeScenario(layers, shop)
  const { layer } = await layers.freeze(shop)
  await layers.put(other, layer)
  const sent = key("sent")
  await layers.put(sent, layer)
  const carried = await workAndFreeze(
    layers,
    sent,
    "mv kept kept2; head -c 3000000 /dev/zero > sent",
  )
  const archive = join(parent, "archive.tar.zst")
  await exportTo(layers, carried.layer, archive)
  await layers.remove(sent)
  await layers.collect()
  const gone = key("gone")
  await layers.put(gone, layer)
  await workAndFreeze(layers, gone, "echo unused > unused")
  await work(layers, gone, "echo on top > unused")
  await layers.remove(gone)
  await work(
    layers,
    shop,
    "rm -r kept; mkdir kept; echo on top > kept/new; head -c 3000000 /dev/zero > large",
  )
  return { root, archive, shown: await view(layers, shop) }
}

/** Steps in their order; `+` is the time after a step in which a program works. */
const STEPS = {
  top: ["top.made", "top.renamed", "top.stacked"],
  freeze: ["freeze.described", "freeze.renamed", "freeze.stacked", "freeze.cleaned"],
  snapshot: [
    ...["snapshot.prepared", "snapshot.frozen", "snapshot.frozen+", "snapshot.copied"],
    ...["snapshot.thawed", "snapshot.described", "snapshot.renamed", "snapshot.pinned"],
  ],
  flatten: [
    ...["flatten.prepared", "flatten.prepared+", "flatten.copied", "flatten.described"],
    ...["flatten.renamed", "flatten.noted", "flatten.rebased", "flatten.stacked"],
  ],
  collect: ["collect.trashed", "collect.deleted"],
  import: [
    ...["import.prepared", "import.prepared+", "import.unpacked"],
    ...["import.described", "import.renamed", "import.pinned"],
  ],
} as const

const crashIn = async (root: string, operation: string, step: string, archive: string) => {
  const script = join(import.meta.dirname, "testing/crash.ts")
  const child = spawn(process.execPath, ["--conditions=source", script, root, operation, step], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, SANDBOX, ARCHIVE: archive },
  })
  const [, signal] = await once(child, "close")
  return signal
}

/** The programs that still work on a store after their process was killed. */
const workersOn = async (root: string): Promise<string[]> => {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name))
  const commands = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
  )
  return commands.filter((command) => command.includes(root))
}

const expectNothingLeft = async (root: string, layers: Layers): Promise<void> => {
  expect(await workersOn(root)).toEqual([])
  expect(await readdir(join(root, "incoming"))).toEqual([])
  expect(await readdir(join(root, "trash"))).toEqual([])
  expect(await layers.verify()).toMatchObject({ repairs: [], problems: [], perhapsFrozen: [] })
  for (const { heldBy } of (await layers.list()).layers) expect(heldBy).not.toEqual([])
}

requires("root").describe("a store whose process is killed", () => {
  let parent = ""
  let prepared: Prepared
  beforeAll(async () => {
    parent = mkdtempSync("/dev/shm/berth-layers-")
    prepared = await prepare(parent)
  })
  afterAll(() => rmSync(parent, { recursive: true, force: true }))

  const copyOfStore = (): string => {
    const root = join(makeRoot(), "store")
    execFileSync("cp", ["-a", prepared.root, root])
    return root
  }

  for (const [operation, steps] of Object.entries(STEPS)) {
    describe(`in ${operation}`, () => {
      it.each(sampled(`crash points of a layer store in ${operation}`, steps, 1))(
        "at %s, loses nothing and leaves nothing once it is verified",
        async (step) => {
          const root = copyOfStore()
          expect(await crashIn(root, operation, step, prepared.archive)).toBe("SIGKILL")
          const layers = await openForTest(root)
          const report = await layers.verify({ isAlive: () => false })
          expect(report.problems).toEqual([])
          const standsStill = /^snapshot\.(prepared|frozen|frozen\+|copied)$/.test(step)
          expect(report.perhapsFrozen).toEqual(standsStill ? [SANDBOX] : [])
          await expectNothingLeft(root, layers)
          expect(await view(layers, shop)).toBe(prepared.shown)
        },
      )
    })
  }

  it("shows its files before it is verified when its top has just become a layer", async () => {
    const root = copyOfStore()
    await crashIn(root, "freeze", "freeze.renamed", prepared.archive)
    expect(await view(await openForTest(root), shop)).toBe(prepared.shown)
  })

  it("takes the programs that work for it down with its process", async () => {
    const root = copyOfStore()
    const bytes = 300_000_000
    await work(await openForTest(root), shop, `head -c ${bytes} /dev/zero > huge`)
    await crashIn(root, "snapshot", "snapshot.frozen+", prepared.archive)
    while ((await workersOn(root)).length > 0) {
      // A killed process is gone when the kernel has taken it down.
    }
    const [draft = ""] = await readdir(join(root, "incoming"))
    const copied = await readdir(join(root, "incoming", draft, "tree"))
    const sizes = await Promise.all(
      copied.map((name) => stat(join(root, "incoming", draft, "tree", name))),
    )
    expect(sizes.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(bytes)
  })

  it.each(Object.keys(STEPS) as (keyof typeof STEPS)[])(
    "is killed at exactly the steps that %s has",
    async (operation) => {
      const told: string[] = []
      const root = copyOfStore()
      const layers = await openLayers({ root, idBase: ID_BASE, at: (step) => void told.push(step) })
      await run(operation, layers, prepared.archive)
      const killedAt = STEPS[operation].filter((step) => !step.endsWith("+"))
      const ownSteps = [...new Set(told)].filter((step) => step.startsWith(operation))
      expect(ownSteps.toSorted()).toEqual(killedAt.toSorted())
    },
  )
})

const run = async (
  operation: keyof typeof STEPS,
  layers: Layers,
  archive: string,
): Promise<void> => {
  const still = async () => {}
  switch (operation) {
    case "top":
      await layers.freeze(shop)
      await layers.ensureTop(shop)
      return
    case "freeze":
      await layers.freeze(shop)
      return
    case "snapshot":
      await layers.claimTop(shop, SANDBOX)
      await layers.snapshot([shop], {
        sandbox: SANDBOX,
        reason: "test",
        freeze: still,
        thaw: still,
      })
      return
    case "flatten":
      await layers.freeze(shop)
      await layers.ensureTop(shop)
      await layers.flatten(shop)
      return
    case "collect":
      await layers.collect()
      return
    case "import":
      await importFrom(layers, createReadStream(archive))
  }
}
