import { describe, expect, it } from "vitest"
import {
  MAX_PACKING_WAIT_MS,
  PACKING_BURST_MS,
  PACKING_SHARE,
  PackingPace,
} from "./packing-pace.ts"

/** The part of the time that git packs for a sandbox that asks again at each answer, after its burst. */
const shareOf = (bundleMs: number): number => {
  const pace = new PackingPace()
  let nowMs = 0
  let packedMs = 0
  let sinceMs = 0
  for (let turn = 0; turn < 100_000; turn += 1) {
    const waitMs = pace.waitMs(nowMs)
    if (waitMs > 0 && sinceMs === 0) {
      sinceMs = nowMs
      packedMs = 0
    }
    nowMs += waitMs + bundleMs
    packedMs += bundleMs
    pace.spend(bundleMs, nowMs)
  }
  return packedMs / (nowMs - sinceMs)
}

describe("the pace of packing", () => {
  it.each([50, 1_000, 10_000])(
    "gives a sandbox that asks without end at most 1.3 times its share: %i ms a bundle",
    (ms) => {
      expect(shareOf(ms)).toBeLessThan(PACKING_SHARE * 1.3)
    },
  )

  it("lets ten repos at boot pass at once, and recovers with time", () => {
    const pace = new PackingPace()
    for (let repo = 0; repo < 10; repo += 1) {
      expect(pace.waitMs(0)).toBe(0)
      pace.spend(PACKING_BURST_MS / 10, 0)
    }
    pace.spend(PACKING_BURST_MS, 0)
    expect(pace.waitMs(0)).toBe(MAX_PACKING_WAIT_MS)
    expect(pace.waitMs(PACKING_BURST_MS / PACKING_SHARE)).toBe(0)
  })
})
