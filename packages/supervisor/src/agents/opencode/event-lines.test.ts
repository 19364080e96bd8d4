import { describe, expect, it } from "vitest"
import { EventLines, MAX_LINE_BYTES } from "./event-lines.ts"

describe("events that are cut anywhere", () => {
  it("come out whole, in order", () => {
    const events = [{ type: "a", text: "é\n🚢" }, { type: "b" }, { type: "c" }]
    const bytes = Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""))
    for (const size of [1, 2, 3, 7, bytes.length]) {
      const lines = new EventLines()
      const heard: unknown[] = []
      for (let at = 0; at < bytes.length; at += size)
        heard.push(...lines.of(bytes.subarray(at, at + size)))
      expect(heard).toEqual(events)
    }
  })

  it("are left out when they are too long or no JSON, and the next event is heard", () => {
    const lines = new EventLines()
    const piece = Buffer.from("x".repeat(1024 * 1024))
    lines.of(Buffer.from(`data: "`))
    for (let bytes = 0; bytes <= MAX_LINE_BYTES; bytes += piece.length)
      expect(lines.of(piece)).toEqual([])
    expect(lines.of(Buffer.from(`"\n\ndata: {oops\n\n: a comment\n\ndata: 1\n\n`))).toEqual([1])
  })
})
