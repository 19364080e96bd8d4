import { TerminalClientMessage, TerminalStart } from "@berth/protocol/terminals"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parseClientMessage, terminalStart } from "./parse.ts"

const odd = fc.constantFrom<unknown>(
  ...[0, 1, 1000, 1001, -1, 1.5, "", "x", "a\0b", null, true, [], ["x"], [""], ["x", ""], {}],
  ...[{ A: "b" }, { "A=": "b" }, { "": "b" }, { A: "\0" }, { A: 1 }, "resize", 80],
)

/** Objects with some of the known keys, and with an unknown one. */
const near = fc.record(
  Object.fromEntries(
    ["type", "command", "cwd", "env", "cols", "rows", "more"].map((key) => [
      key,
      key === "cols" || key === "rows" ? fc.oneof(fc.constant(80), odd) : odd,
    ]),
  ),
  { requiredKeys: [] },
)

describe("a client's message about a terminal", () => {
  it("is checked as the schema says", () => {
    fc.assert(
      fc.property(fc.oneof(near, odd), (value) => {
        const isRight = terminalStart(value, "body") === undefined
        expect(isRight, JSON.stringify(value)).toBe(TerminalStart.safeParse(value).success)
        const message = parseClientMessage(JSON.stringify(value))
        expect(message !== undefined).toBe(TerminalClientMessage.safeParse(value).success)
      }),
      { numRuns: 2_000 },
    )
    expect(parseClientMessage('{"type":"resize","cols":80,"rows":24}')).toBeDefined()
    expect(parseClientMessage("{")).toBeUndefined()
    const whole = { command: ["a", ""], cwd: "b", env: { C: "" }, cols: 1, rows: 1000 }
    expect(terminalStart(whole, "body")).toBeUndefined()
  })
})
