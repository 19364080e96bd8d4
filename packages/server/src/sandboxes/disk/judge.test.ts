import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { type Disk, hasRoom, nextLookMs, shortOf, writersOf } from "./judge.ts"

const MB = 1_000_000
const GB = 1_000 * MB

const diskOf = (bytes: number, inodes = 1_000_000, sizeBytes = 100 * GB): Disk => ({
  free: { bytes, inodes },
  size: { bytes: sizeBytes, inodes: 10_000_000 },
})

describe("what is short of a disk", () => {
  it.each([
    [300 * MB, 1_000_000, undefined],
    [255 * MB, 1_000_000, "bytes"],
    [300 * MB, 9_999, "inodes"],
  ])("is told of %d bytes and %d inodes", (bytes, inodes, short) => {
    expect(shortOf(diskOf(bytes, inodes))).toBe(short)
  })

  it("leaves most of a small disk to its users", () => {
    expect(shortOf(diskOf(21 * MB, 1_000_000, GB))).toBeUndefined()
    expect(shortOf(diskOf(19 * MB, 1_000_000, GB))).toBe("bytes")
  })

  it("is over with more room than it began with", () => {
    expect(hasRoom(diskOf(300 * MB))).toBe(false)
    expect(hasRoom(diskOf(600 * MB))).toBe(true)
  })

  it("is looked for before anybody can have written what is left", () => {
    expect(nextLookMs(diskOf(80 * GB, 2_000_000))).toBe(5_000)
    expect(nextLookMs(diskOf(1_256 * MB))).toBe(500)
    expect(nextLookMs(diskOf(0))).toBe(50)
  })
})

describe("who fills a disk", () => {
  const [large, writer, small] = [newId.sandbox(), newId.sandbox(), newId.sandbox()]
  const disk = diskOf(100 * MB)

  it("is whose files grew, not who has most", () => {
    const before = new Map([[large, 40 * GB] as const, [writer, GB] as const])
    const now = new Map([
      ...[[large, 40 * GB + MB / 2] as const, [writer, 9 * GB] as const, [small, MB] as const],
    ])
    expect(writersOf(now, before, disk, "bytes")).toEqual([writer])
  })

  it("is who has most, where nobody was measured before", () => {
    const now = new Map([[writer, 40 * GB] as const, [small, 30 * MB] as const])
    expect(writersOf(now, new Map(), disk, "bytes")).toEqual([writer])
  })

  it("is nobody where no sandbox has anything to speak of", () => {
    const now = new Map([[large, 90 * MB] as const, [small, 30 * MB] as const])
    expect(writersOf(now, new Map(), disk, "bytes")).toEqual([])
  })

  it("is who has so many files that they cannot be counted, once", () => {
    const now = new Map([[writer, Number.POSITIVE_INFINITY] as const, [small, GB] as const])
    expect(writersOf(now, new Map([[small, MB]]), disk, "bytes")).toEqual([writer])
    expect(writersOf(now, now, disk, "bytes")).toEqual([])
  })
})
