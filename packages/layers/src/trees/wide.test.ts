import { mkdirSync, mkdtempSync } from "node:fs"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { requires } from "@berth/testing/requires"
import { removeDeep, spread } from "@berth/testing/trees"
import { afterAll, beforeAll, expect, it } from "vitest"
import { overlayMarks } from "./overlay-marks.ts"
import { BATCH_ENTRIES, type ToldEntry, walk } from "./tally.ts"

const NAME_BYTES = 255
/** More names than the walk keeps in memory of the directories that it has yet to enter: 2 MB. */
const BATCHES = 48
const FOLDERS = BATCHES * BATCH_ENTRIES

/** The memory that may come with a folder: a quarter of its name. */
const MAX_BYTES_PER_FOLDER = 64

/** The memory after a collection, which takes what nothing refers to and gives it back at once. */
const memoryBytes = (() => {
  setFlagsFromString("--expose-gc")
  setFlagsFromString("--no-concurrent-array-buffer-sweeping")
  const collect = runInNewContext("gc") as () => void
  return (): number => {
    // The second collection gives back the memory that the first one finds to be unused.
    collect()
    collect()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
})()

/** Measures the memory at the first and at the last of so many moments. */
const watchGrowth = () => {
  let count = 0
  let firstBytes = 0
  let lastBytes = 0
  return {
    look: () => {
      count += 1
      if (count === 1) firstBytes = memoryBytes()
      if (count === BATCHES) lastBytes = memoryBytes()
    },
    perFolder: () => {
      expect(count).toBe(BATCHES)
      return (lastBytes - firstBytes) / (FOLDERS - BATCH_ENTRIES)
    },
  }
}

requires("root").describe(`a directory of ${FOLDERS} folders with long names`, () => {
  let root: string
  let tree: string
  beforeAll(async () => {
    root = mkdtempSync("/dev/shm/berth-wide-")
    tree = join(root, "tree")
    mkdirSync(tree)
    await spread(tree, FOLDERS, NAME_BYTES, "directory")
  })
  afterAll(() => removeDeep(root))

  it("is walked by a thread that keeps none of the names in memory", () => {
    const growth = watchGrowth()
    const credit = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
    // Nobody takes the batches here.
    Atomics.store(new Int32Array(credit), 0, BATCHES)
    const order = { tree, idBase: 0, spill: join(root, "spill"), tell: true, credit }
    const { files } = walk(order, (message) => {
      if ("told" in message) growth.look()
    })
    expect(files).toBe(FOLDERS)
    expect(growth.perFolder()).toBeLessThan(MAX_BYTES_PER_FOLDER)
  })

  it("has its marks read by a server that keeps none of the names in memory", async () => {
    const growth = watchGrowth()
    const marks = overlayMarks(tree)
    try {
      for (let batch = 0; batch < BATCHES; batch += 1) {
        await marks.add(entriesOf(batch))
        growth.look()
      }
      expect(await marks.digest()).toMatch(/^[0-9a-f]{64}$/)
    } finally {
      marks.stop()
    }
    expect(growth.perFolder()).toBeLessThan(MAX_BYTES_PER_FOLDER)
  })
})

const entriesOf = (batch: number): ToldEntry[] =>
  Array.from({ length: BATCH_ENTRIES }, (_, place) => {
    const name = String(batch * BATCH_ENTRIES + place).padStart(NAME_BYTES, "n")
    return { path: Buffer.from(name) }
  })
