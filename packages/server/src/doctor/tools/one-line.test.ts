import { describe, expect, it } from "vitest"
import { oneLine } from "./one-line.ts"

describe("oneLine", () => {
  it.each([
    ["one\ntwo", "one"],
    ["\n\n  later  \n", "later"],
    ["\u001b[31mred\u001b[0m\u0007", "[31mred[0m"],
    ["", ""],
  ])("%j → %j", (text, expected) => {
    expect(oneLine(text)).toBe(expected)
  })

  it("cuts a line that would fill the screen", () => {
    expect(oneLine("x".repeat(10_000))).toHaveLength(201)
  })
})
