import { describe, expect, it } from "vitest"
import { ManualClock } from "../processes/testing/manual-clock.ts"
import { LIVE_OUTPUT_BYTES, LIVE_OUTPUT_INTERVAL_MS, LiveOutput } from "./live-output.ts"

const watch = () => {
  const clock = new ManualClock()
  const shown: { atMs: number; text: string; leftOutBytes: number }[] = []
  const live = new LiveOutput(clock, (text, leftOutBytes) =>
    shown.push({ atMs: clock.nowMs(), text, leftOutBytes }),
  )
  return { clock, shown, live, write: (text: string) => live.write(Buffer.from(text)) }
}

describe("LiveOutput", () => {
  it("shows the first piece at once and gathers the following pieces of an interval", async () => {
    const { clock, shown, write } = watch()
    write("one\n")
    write("two\n")
    write("three\n")
    await clock.runOut()
    expect(shown).toEqual([
      { atMs: 0, text: "one\n", leftOutBytes: 0 },
      { atMs: LIVE_OUTPUT_INTERVAL_MS, text: "two\nthree\n", leftOutBytes: 0 },
    ])
    expect(clock.pendingTimers).toBe(0)
  })

  it("shows the end of output that comes too fast, and counts the rest to the byte", async () => {
    const { clock, shown, write } = watch()
    const line = "0123456789abcde\n"
    for (let written = 0; written < 1_000_000; written += line.length) write(line)
    await clock.runOut()
    expect(shown).toHaveLength(2)
    const shownBytes = shown.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
    const leftOut = shown.reduce((sum, { leftOutBytes }) => sum + leftOutBytes, 0)
    expect(shown[1]?.text).toHaveLength(LIVE_OUTPUT_BYTES)
    expect(shownBytes + leftOut).toBe(1_000_000)
  })

  it("shows the rest when it is closed, and keeps no timer", async () => {
    const { clock, shown, live, write } = watch()
    write("one\n")
    write("two\n")
    live.close()
    expect(shown.map(({ text }) => text)).toEqual(["one\n", "two\n"])
    expect(clock.pendingTimers).toBe(0)
  })

  it("waits for the rest of a character", async () => {
    const { clock, shown, live } = watch()
    const ship = Buffer.from("🚢")
    live.write(ship.subarray(0, 2))
    live.write(ship.subarray(2))
    await clock.runOut()
    expect(shown.map(({ text }) => text)).toEqual(["🚢"])
  })
})
