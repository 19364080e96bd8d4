import { describe, expect, it } from "vitest"
import { Duration, durationMs } from "./duration.ts"

describe("Duration", () => {
  it.each([
    ["0", 0],
    ["90s", 90_000],
    ["10m", 600_000],
    ["24h", 86_400_000],
    ["7d", 604_800_000],
  ])("takes %s", (text, ms) => {
    expect(durationMs(Duration.parse(text))).toBe(ms)
  })

  it.each(["", "10", "1.5h", "-1s", "0s", "07m", "1w", "1 h", "9999999s", "h"])(
    "refuses %o",
    (text) => {
      expect(Duration.safeParse(text).success).toBe(false)
    },
  )
})
