import { describe, expect, it } from "vitest"
import { lineForPeople } from "./line-for-people.ts"

const LINE = { level: "info", time: "2026-01-02T03:04:05.678Z", pid: 1 }
const render = (fields: object, color = false) =>
  lineForPeople(JSON.stringify({ ...LINE, ...fields }), { color })

describe("a line of the log for people", () => {
  it("is one line with the operation, its fields and how long it took", () => {
    const fields = { op: "sandbox.create", outcome: "ok", sandbox: "sb-1", mode: "two words" }
    const line = render({ ...fields, durationMs: 12.3, msg: "sandbox.create ok", requestId: "x" })
    expect(line).toMatch(/^\d\d:\d\d:05 sandbox\.create sandbox=sb-1 mode="two words" 12\.3 ms\n$/)
  })

  it("is left out for a GET, unless that failed with an error or every line is wanted", () => {
    const look = { op: "request.answer", method: "GET", msg: "request.answer ok" }
    const brief = (fields: object) =>
      lineForPeople(JSON.stringify({ ...LINE, ...fields }), { color: false, isWhole: false })
    expect(brief(look)).toBe("")
    expect(brief({ ...look, level: "error" })).toContain("request.answer")
    expect(brief({ ...look, method: "POST" })).toContain("request.answer")
    expect(render(look)).toContain("request.answer")
  })

  it("says why an operation failed, with the stack of a defect alone", () => {
    const failed = { level: "warn", msg: "request.answer failed" }
    const expected = {
      message: "no such key",
      code: "agent.key_missing",
      stack: "Error: …\n  at x",
    }
    expect(render({ ...failed, err: expected })).toMatch(
      /^\S+ warn: request\.answer failed: no such key\n$/,
    )
    const defect = { message: "not a function", stack: "TypeError: not a function\n    at y" }
    expect(render({ ...failed, level: "error", err: defect })).toMatch(
      / error: request\.answer failed: not a function\nTypeError: not a function\n {4}at y\n$/,
    )
  })

  it("escapes control characters and directions of writing in a sandbox's words", () => {
    const line = render({
      msg: "said",
      word: "a\u202eb\u001b[2Jc",
      err: { message: "x\ny", code: "c" },
    })
    expect(line).toContain("a\\u{202e}b\\u{1b}[2Jc")
    expect(line.trimEnd()).not.toMatch(/[\p{C}]/u)
  })

  it("has colours only where they are wanted", () => {
    expect(render({ msg: "x", level: "error" })).not.toContain("\u001b")
    expect(render({ msg: "x", level: "error" }, true)).toContain("\u001b[31merror: x\u001b[0m")
  })
})
