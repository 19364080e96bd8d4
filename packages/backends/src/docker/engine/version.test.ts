import { describe, expect, it } from "vitest"
import { negotiate } from "./version.ts"

describe("the negotiated version of the engine's API", () => {
  it.each([
    ["an old engine's own", "1.41", "1.12", "v1.41"],
    ["the newest known one", "1.52", "1.40", "v1.44"],
    ["the oldest that a new engine speaks", "1.60", "1.45", "v1.45"],
    ["the engine's own where it names no oldest", "1.43", undefined, "v1.43"],
  ])("is %s", (_, ApiVersion, MinAPIVersion, api) => {
    expect(negotiate({ Version: "x", ApiVersion, MinAPIVersion }).api).toBe(api)
  })

  it("is refused where the engine is too old", () => {
    expect(() => negotiate({ Version: "18.09", ApiVersion: "1.39" })).toThrow(/too old/)
  })
})
