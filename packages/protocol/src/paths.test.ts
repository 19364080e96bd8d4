import { describe, expect, it } from "vitest"
import { AbsolutePath, RelativePath } from "./paths.ts"

describe("AbsolutePath", () => {
  it.each(["/", "/a", "/a/b.c", "/a/..b", "/ä/ö ü"])("takes %j", (path) => {
    expect(AbsolutePath.parse(path)).toBe(path)
  })

  it.each([
    "",
    "a",
    "a/b",
    "//",
    "/a/",
    "/a//b",
    "/..",
    "/a/../b",
    "/a/.",
    "/a\0b",
    `/${"a".repeat(4096)}`,
  ])("refuses %j", (path) => {
    expect(AbsolutePath.safeParse(path).success).toBe(false)
  })
})

describe("RelativePath", () => {
  it.each(["a", "a/b", ".berth/setup.sh", "..a"])("takes %j", (path) => {
    expect(RelativePath.parse(path)).toBe(path)
  })

  it.each(["", "/a", "a/", "a//b", "..", "../a", "a/../b", ".", "a/./b", "a\0b"])(
    "refuses %j",
    (path) => {
      expect(RelativePath.safeParse(path).success).toBe(false)
    },
  )
})
