import { describe, expect, it } from "vitest"
import { refusalOf } from "./allowed.ts"

describe("a request for a terminal", () => {
  it.each([
    ["localhost:7681", undefined],
    ["LOCALHOST", undefined],
    ["127.0.0.1:7681", "http://127.0.0.1:7681"],
    ["[::1]:7681", "http://[::1]:7681"],
    ["localhost:7681", "https://localhost:7681"],
  ])("to %s from the origin %s is let in", (host, origin) => {
    expect(refusalOf({ host, origin })).toBeUndefined()
  })

  it.each([
    [undefined, undefined],
    ["rebound.example:7681", "http://rebound.example:7681"],
    ["localhost.example", undefined],
    ["127.0.0.1.example:7681", undefined],
    ["127.0.0.1:7681@example", undefined],
    ["10.0.0.1:7681", undefined],
    ["localhost:7681", "https://example.com"],
    ["localhost:7681", "http://localhost:3000"],
    ["localhost:7681", "http://127.0.0.1:7681"],
    ["localhost:7681", "null"],
    ["localhost:7681", ""],
  ])("to %s from the origin %s is refused", (host, origin) => {
    expect(refusalOf({ host, origin })).toBeTypeOf("string")
  })
})
