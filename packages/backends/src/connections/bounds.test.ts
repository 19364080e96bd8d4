import { describe, expect, it } from "vitest"
import { boundsOf, readBounds } from "./bounds.ts"

const EPHEMERAL = { first: 32_768, last: 60_999 }
/** The kernel keeps a closed connection for two minutes. */
const CLOSED_SECONDS = 120

describe("the bounds for connections", () => {
  it.each([4_096, 65_536, 262_144, 4_000_000])(
    "leave 15 percent of %d tracked connections to the host",
    (tracked) => {
      const { together, togetherPerSecond, togetherBurst } = boundsOf(tracked, EPHEMERAL)
      const most = together + togetherPerSecond * CLOSED_SECONDS + togetherBurst
      expect(most).toBeLessThan(tracked * 0.85)
    },
  )

  it.each([4_096, 65_536, 262_144, 4_000_000])(
    "give one sandbox at most a sixteenth of all, and a quarter of the rate, of %d",
    (tracked) => {
      const bounds = boundsOf(tracked, EPHEMERAL)
      expect(bounds.sandbox * 16).toBeLessThanOrEqual(bounds.together)
      expect(bounds.sandboxPerSecond * 4).toBeLessThanOrEqual(bounds.togetherPerSecond)
    },
  )

  it("let a sandbox have 2,048 connections and over 100 new ones a second on a usual host", () => {
    const { sandbox, sandboxPerSecond } = boundsOf(262_144, EPHEMERAL)
    expect(sandbox).toBe(2_048)
    expect(sandboxPerSecond).toBeGreaterThan(100)
  })

  it("keep to ports outside the host's ephemeral range", () => {
    expect(boundsOf(262_144, EPHEMERAL).ports).toEqual({ first: 1_024, last: 32_767 })
    expect(boundsOf(262_144, { first: 1_024, last: 40_000 }).ports).toEqual({
      first: 40_001,
      last: 65_535,
    })
    expect(boundsOf(262_144, { first: 1_024, last: 65_535 }).ports).toBeUndefined()
  })

  it("follow from the settings of this host's kernel", () => {
    expect(readBounds().together).toBeGreaterThan(0)
  })
})
