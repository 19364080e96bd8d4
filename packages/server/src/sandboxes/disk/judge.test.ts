import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { type Disk, hasRoom, nextLookMs, shortOf, writersOf } from "./judge.ts"

const MB = 1_000_000
const GB = 1_000 * MB

const diskOf = (bytes: number, inodes = 1_000_000, sizeBytes = 100 * GB): Disk => ({
  free: { bytes, inodes },
  size: { bytes: sizeBytes, inodes: 10_000_000 },
})

describe("the resource that a disk is short of", () => {
  it.each([
    [300 * MB, 1_000_000, undefined],
    [255 * MB, 1_000_000, "bytes"],
    [300 * MB, 9_999, "inodes"],
  ])("is found for %d bytes and %d inodes", (bytes, inodes, short) => {
    expect(shortOf(diskOf(bytes, inodes))).toBe(short)
  })

  it("is bytes on a small disk only when a fiftieth is left", () => {
    expect(shortOf(diskOf(21 * MB, 1_000_000, GB))).toBeUndefined()
    expect(shortOf(diskOf(19 * MB, 1_000_000, GB))).toBe("bytes")
  })

  it("is relieved only with more room than it became short with", () => {
    expect(hasRoom(diskOf(300 * MB))).toBe(false)
    expect(hasRoom(diskOf(600 * MB))).toBe(true)
  })

  it("is looked for sooner the less room is left", () => {
    expect(nextLookMs(diskOf(80 * GB, 2_000_000))).toBe(5_000)
    expect(nextLookMs(diskOf(1_256 * MB))).toBe(500)
    expect(nextLookMs(diskOf(0))).toBe(50)
  })
})

describe("the sandbox that fills a disk", () => {
  const [large, writer, small] = [newId.sandbox(), newId.sandbox(), newId.sandbox()]
  const disk = diskOf(100 * MB)

  it("is the one whose files grew, not the one that has most", () => {
    const before = new Map([[large, 40 * GB] as const, [writer, GB] as const])
    const now = new Map([
      ...[[large, 40 * GB + MB / 2] as const, [writer, 9 * GB] as const, [small, MB] as const],
    ])
    expect(writersOf(now, before, disk, "bytes")).toEqual([writer])
  })

  it("is the one that has most, where none was measured before", () => {
    const now = new Map([[writer, 40 * GB] as const, [small, 30 * MB] as const])
    expect(writersOf(now, new Map(), disk, "bytes")).toEqual([writer])
  })

  it("is none where every sandbox has little", () => {
    const now = new Map([[large, 90 * MB] as const, [small, 30 * MB] as const])
    expect(writersOf(now, new Map(), disk, "bytes")).toEqual([])
  })

  it("is the one whose files cannot be counted any more, and only once", () => {
    const now = new Map([[writer, Number.POSITIVE_INFINITY] as const, [small, GB] as const])
    expect(writersOf(now, new Map([[small, MB]]), disk, "bytes")).toEqual([writer])
    expect(writersOf(now, now, disk, "bytes")).toEqual([])
  })
})
