import { describe, expect, it } from "vitest"
import { type Allowance, excessOf, isDue, type Measured, untilFullMs } from "./allowance.ts"

const MB = 1_000_000
const GB = 1_000 * MB

const measured = (bytes: number, over: Partial<Measured> = {}): Measured => ({
  used: { bytes, inodes: 5_000 },
  free: { bytes: 100 * GB, inodes: 1_000_000 },
  atMs: 0,
  tookMs: 100,
  ...over,
})
const disk = (freeBytes: number) => ({
  free: { bytes: freeBytes, inodes: 1_000_000 },
  size: { bytes: 150 * GB, inodes: 1_500_000 },
})

describe("the excess of a sandbox over its allowance", () => {
  it.each<[Measured["used"], Allowance, string | undefined]>([
    [
      { bytes: 12.1 * GB },
      { bytes: 10 * GB },
      "its files take 12.1 GB of the 10 GB that limits.diskBytes allows",
    ],
    [
      { bytes: 640 * MB },
      { bytes: 512 * MB },
      "its files take 640 MB of the 512 MB that limits.diskBytes allows",
    ],
    [
      { inodes: 120_000 },
      { inodes: 100_000 },
      "it has 120,000 files of the 100,000 that limits.diskInodes allows",
    ],
    [
      { bytes: Number.POSITIVE_INFINITY },
      { bytes: GB },
      "its files take more than can be counted of the 1 GB that limits.diskBytes allows",
    ],
    [{ bytes: 10 * GB, inodes: 5 }, { bytes: 10 * GB }, undefined],
    [{ bytes: 10 * GB }, {}, undefined],
    [{}, { bytes: 10 * GB }, undefined],
  ])("is described for %o with %o", (used, allowance, words) => {
    expect(excessOf({ used }, allowance)).toBe(words)
  })
})

describe("a sandbox's files", () => {
  const bounded = { bytes: 10 * GB }
  it.each<[string, Measured | undefined, Allowance, number, number, boolean]>([
    ["are measured at first", undefined, bounded, 100 * GB, 0, true],
    ["are left alone while the disk is half free", undefined, {}, 76 * GB, 0, false],
    ["are measured when the disk is less than half free", undefined, {}, 74 * GB, 0, true],
    ["are left alone while the disk loses little", measured(GB), bounded, 99 * GB, 30_000, false],
    [
      "are measured when they can have reached their limit",
      measured(GB),
      bounded,
      91 * GB,
      30_000,
      true,
    ],
    ["are measured again after a minute", measured(GB), bounded, 100 * GB, 60_000, true],
    [
      "are measured at any loss when they are over",
      measured(11 * GB),
      bounded,
      99.9 * GB,
      2_000,
      true,
    ],
    ["are not measured again and again", measured(11 * GB), bounded, 0, 900, false],
    [
      "are measured seldom if that takes long",
      measured(GB, { tookMs: 5_000 }),
      bounded,
      100 * GB,
      200_000,
      false,
    ],
    ["are left alone without a limit", measured(GB), {}, 60 * GB, 1e9, false],
    ["are measured when half of the disk's room is gone", measured(GB), {}, 50 * GB, 2_000, true],
    [
      "are measured if one resource was not",
      measured(GB, { used: { bytes: GB } }),
      {},
      100 * GB,
      2_000,
      true,
    ],
  ])("%s", (_title, last, allowance, freeBytes, nowMs, due) => {
    expect(isDue(last, allowance, disk(freeBytes), nowMs)).toBe(due)
  })

  it("are looked at before they can have reached their limit, and once a second at most", () => {
    expect(untilFullMs(measured(0), { bytes: 10 * GB })).toBe(5_000)
    expect(untilFullMs(measured(10 * GB), { bytes: 10 * GB })).toBe(1_000)
    expect(untilFullMs(undefined, { inodes: 1_000 })).toBe(1_000)
    expect(untilFullMs(measured(0), {})).toBe(Number.POSITIVE_INFINITY)
  })
})
