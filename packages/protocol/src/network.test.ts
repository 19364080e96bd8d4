import { describe, expect, it } from "vitest"
import { Ipv4Range, NetworkPolicy } from "./network.ts"

describe("Ipv4Range", () => {
  it.each([
    ["10.1.2.3/8", "10.0.0.0/8"],
    ["192.168.7.255/24", "192.168.7.0/24"],
    ["203.0.113.9/32", "203.0.113.9/32"],
    ["255.255.255.255/1", "128.0.0.0/1"],
    ["1.2.3.4/0", "0.0.0.0/0"],
  ])("normalises %s to %s", (given, normal) => {
    expect(Ipv4Range.parse(given)).toBe(normal)
  })

  it.each(["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::1/128", "example.com/8", "10.0.0.0/8; drop"])(
    "refuses %j",
    (range) => {
      expect(Ipv4Range.safeParse(range).success).toBe(false)
    },
  )
})

describe("NetworkPolicy", () => {
  it("opens no private range unless it is listed", () => {
    expect(NetworkPolicy.parse({ kind: "open" })).toEqual({ kind: "open", allow: [] })
  })

  it("refuses a list where there is no network", () => {
    const policy = { kind: "none", allow: ["10.0.0.0/8"] }
    expect(NetworkPolicy.safeParse(policy).success).toBe(false)
  })
})
