import { execFile } from "node:child_process"
import { mkdtempSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { newId } from "@berth/protocol/ids"
import { furtherCases } from "@berth/testing/further-cases"
import { requires } from "@berth/testing/requires"
import { isWholeRun, sized } from "@berth/testing/sampled"
import { nest, removeDeep, spread } from "@berth/testing/trees"
import { expect, onTestFinished } from "vitest"
import { layoutAt } from "./io/layout.ts"
import { openLayers } from "./open.ts"
import { AGENT, ID_BASE } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { snapshotOne } from "./testing/snapshot-one.ts"
import { openForTest } from "./testing/store.ts"

const shop = key("shop")
const CHILD = fileURLToPath(new URL("testing/freeze-child.ts", import.meta.url))
/** Far above the time that these tests take on two busy cores. */
const BUDGET_MS = isWholeRun ? 1_800_000 : 120_000
/** Their names alone are four times the memory of the process. */
const FOLDERS = 1_000_000
/** A process that kept a few hundred thousand paths as text would need several times this. */
const HEAP_MB = 64

const makeDeepRoot = (): string => {
  const root = mkdtempSync("/dev/shm/berth-layers-")
  onTestFinished(() => removeDeep(root), BUDGET_MS)
  return root
}

/** Freezes the stack in a process of little memory. */
const freezeWithLittle = async (root: string): Promise<unknown> => {
  const args = [`--max-old-space-size=${HEAP_MB}`, "--conditions=source", CHILD, root]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return JSON.parse(stdout)
}

const stageTop = async (): Promise<{ root: string; tree: string }> => {
  const root = makeDeepRoot()
  const layers = await openForTest(root)
  await layers.put(shop, null)
  const { top } = await layers.ensureTop(shop, AGENT)
  return { root, tree: layoutAt(root).top(top).tree }
}

requires("root").describe("a tree that a sandbox made to harm", () => {
  const levels = sized("depth of a frozen tree", { few: 3_000, all: 100_000 })
  requires("root").it(
    `is frozen in little memory when it is ${levels} folders deep`,
    async () => {
      const { root, tree } = await stageTop()
      await nest(tree, levels, 255)
      expect(await freezeWithLittle(root)).toEqual({ made: true, problems: [], files: levels })
    },
    BUDGET_MS,
  )

  // Fewer folders fit into any memory: `trees/wide.test.ts` has the memory that comes with each.
  furtherCases("freezes of a wide tree", { inPart: true })(
    `is frozen in little memory when ${FOLDERS} folders with long names lie in one`,
    async () => {
      const { root, tree } = await stageTop()
      await spread(tree, FOLDERS, 255, "directory")
      const frozen = { made: true, problems: [], files: FOLDERS }
      expect(await freezeWithLittle(root)).toEqual(frozen)
    },
    BUDGET_MS,
  )

  requires("root").it(
    "is not copied while its sandbox runs when its paths are too long, and the error says so",
    async () => {
      const { root, tree } = await stageTop()
      await nest(tree, 40, 255)
      const layers = await openForTest(root)
      const sandbox = newId.sandbox()
      const { top } = await layers.claimTop(shop, sandbox)
      const taking = snapshotOne(layers, shop, { ...NEVER_STILL, sandbox, reason: "test" })
      await expect(taking).rejects.toMatchObject({
        code: "layers.path_too_long",
        message: expect.stringContaining("deeper than a path can be long"),
      })
      await layers.releaseTop(top, sandbox)
    },
  )

  requires("root").it(
    "is unlisted at once when its workspace is removed, and deleted by the next process at the latest",
    async () => {
      const { root, tree } = await stageTop()
      await nest(tree, levels, 255)
      const held = Promise.withResolvers<void>()
      const deleted = Promise.withResolvers<void>()
      const layers = await openLayers({
        root,
        idBase: ID_BASE,
        at: (step) => {
          if (step !== "collect.deleted") return undefined
          deleted.resolve()
          return held.promise
        },
      })
      await layers.freeze(shop)
      await layers.ensureTop(shop, AGENT)
      await layers.remove(shop)
      await layers.collect({ wait: false })
      expect(await layers.list()).toMatchObject({ layers: [], stacks: [] })
      await deleted.promise
      expect(await layers.list()).toMatchObject({ trash: 1 })
      const closing = layers.close()
      held.resolve()
      await closing
      const next = await openForTest(root)
      await next.verify()
      expect(await next.list()).toMatchObject({ trash: 0 })
      expect(await readdir(layoutAt(root).trash)).toEqual([])
    },
    BUDGET_MS,
  )
})

/** The freezer of a sandbox without processes. */
const NEVER_STILL = { freeze: async () => {}, thaw: async () => {} }
