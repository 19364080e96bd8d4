import { describe, expect, it } from "vitest"
import { negotiate } from "./version.ts"

describe("the version that is spoken", () => {
  it.each([
    ["an old engine's own", "1.41", "1.12", "v1.41"],
    ["the newest that is known", "1.52", "1.40", "v1.44"],
    ["what a new engine still speaks", "1.60", "1.45", "v1.45"],
    ["an engine's that names no oldest", "1.43", undefined, "v1.43"],
  ])("is %s", (_, ApiVersion, MinAPIVersion, api) => {
    expect(negotiate({ Version: "x", ApiVersion, MinAPIVersion }).api).toBe(api)
  })

  it("is none with an engine that lacks what is asked", () => {
    expect(() => negotiate({ Version: "18.09", ApiVersion: "1.39" })).toThrow(/too old/)
  })
})
