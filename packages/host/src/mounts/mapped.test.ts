import { describe, expect, it } from "vitest"
import { mappedEntry } from "./mapped.ts"

const ID_COUNT = 65_536
const rangeAt = (index: number): number => 0x7001_0000 + index * ID_COUNT

/** The extents of the map of a range, and the id that it maps an id to. */
const mapOf = (onDisk: number, own: number) => {
  const [, map = ""] = mappedEntry("/d", { onDisk, own, count: ID_COUNT })
    .options.join()
    .split("X-mount.idmap=")
  const extents = map.split(" ").map((extent) => extent.split(":").slice(1).map(Number))
  const to = (id: number) => {
    const [found] = extents.filter(([from = 0, , count = 0]) => id >= from && id < from + count)
    return found && id - (found[0] ?? 0) + (found[1] ?? 0)
  }
  return { extents, to }
}

describe("mappedEntry", () => {
  it.each([
    ["below", rangeAt(3), rangeAt(9)],
    ["above", rangeAt(9), rangeAt(3)],
    ["beside", rangeAt(3), rangeAt(4)],
  ])("maps the range on disk %s the other to it, and leaves every other id", (_, onDisk, own) => {
    const { extents, to } = mapOf(onDisk, own)
    expect(to(onDisk)).toBe(own)
    expect(to(onDisk + ID_COUNT - 1)).toBe(own + ID_COUNT - 1)
    for (const id of [0, 1000, rangeAt(1), rangeAt(6), rangeAt(12), 0xffff_fffe]) {
      expect(to(id)).toBe(id)
    }
    const counts = extents.map(([, , count = 0]) => count)
    expect(counts.every((count) => count > 0)).toBe(true)
    // All ids but the other range, which no file has on disk, and the last, which is no id.
    expect(counts.reduce((sum, count) => sum + count)).toBe(2 ** 32 - 1 - ID_COUNT)
  })
})
