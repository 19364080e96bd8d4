import { describe, expect, it } from "vitest"
import { nearest } from "./nearest.ts"

const NAMES = ["dataDir", "port", "logLevel"]

describe("nearest", () => {
  it.each([
    ["data_dir", "dataDir"],
    ["data-dir", "dataDir"],
    ["prot", "port"],
    ["loglevl", "logLevel"],
    ["PORT", "port"],
  ])("takes %s for %s", (given, meant) => {
    expect(nearest(given, NAMES)).toBe(meant)
  })

  it.each(["x", "", "colour", "retention"])("offers nothing for %j", (given) => {
    expect(nearest(given, NAMES)).toBeUndefined()
  })
})
