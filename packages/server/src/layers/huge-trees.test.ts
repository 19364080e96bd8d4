import { execFile } from "node:child_process"
import { mkdtempSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { requires } from "@berth/testing/requires"
import { sized } from "@berth/testing/sampled"
import { expect, onTestFinished } from "vitest"
import { layoutAt } from "./layout.ts"
import { AGENT } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { openForTest } from "./testing/store.ts"
import { nest, removeDeep, spread } from "./testing/trees.ts"

const shop = key("shop")
const CHILD = fileURLToPath(new URL("testing/freeze-child.ts", import.meta.url))
/** Far above what it takes on a machine of two busy cores. */
const BUDGET_MS = sized({ few: 120_000, all: 1_800_000 })
/** A server of a few hundred thousand paths as text needs several times this. */
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
  const levels = sized({ few: 6_000, all: 100_000 })
  requires("root").it(
    `is frozen in little memory when it is ${levels} folders deep`,
    async () => {
      const { root, tree } = await stageTop()
      await nest(tree, levels, 255)
      expect(await freezeWithLittle(root)).toEqual({ made: true, problems: [], files: levels })
    },
    BUDGET_MS,
  )

  const files = sized({ few: 20_000, all: 1_000_000 })
  requires("root").it(
    `is frozen in little memory when ${files} folders with long names lie in one`,
    async () => {
      const { root, tree } = await stageTop()
      await spread(tree, files, 255, "directory")
      expect(await freezeWithLittle(root)).toEqual({ made: true, problems: [], files })
    },
    BUDGET_MS,
  )
})
