import { describe, expect, it } from "vitest"
import { newId, SandboxId, SessionId, Slug } from "./ids.ts"

describe("Slug", () => {
  it.each(["a", "a-b", "a1", "a".repeat(63)])("takes %s", (slug) => {
    expect(Slug.parse(slug)).toBe(slug)
  })

  it.each(["", "1a", "-a", "A", "a_b", "a.b", "a/b", "..", "a\n", "a b", "ä", "a".repeat(64)])(
    "refuses %j",
    (slug) => {
      expect(Slug.safeParse(slug).success).toBe(false)
    },
  )
})

describe("ids", () => {
  it("makes ids that parse as their own kind only", () => {
    const sandbox = newId.sandbox()
    expect(SandboxId.parse(sandbox)).toBe(sandbox)
    expect(SessionId.safeParse(sandbox).success).toBe(false)
  })

  it("refuses an id with anything around it", () => {
    const sandbox = newId.sandbox()
    for (const bad of [`${sandbox}\n`, ` ${sandbox}`, `${sandbox}/..`, sandbox.toUpperCase()]) {
      expect(SandboxId.safeParse(bad).success).toBe(false)
    }
  })
})
