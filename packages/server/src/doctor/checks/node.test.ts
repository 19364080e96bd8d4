import { describe, expect, it } from "vitest"
import { judge } from "./node.ts"

describe("the verdict on Node", () => {
  it.each([
    ["24.0.0", "ok"],
    ["26.1.0", "ok"],
    ["22.19.0", "degraded"],
    ["9.9.9", "degraded"],
  ])("%s is %s", (version, status) => {
    expect(judge(version, "/usr/bin/node").status).toBe(status)
  })
})
