import { describe, expect, it } from "vitest"
import { newId, SandboxId, SessionId, Slug } from "./ids.ts"
import { randomId } from "./random-id.ts"

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

  it("uses every letter of the alphabet, each about as often", () => {
    const counts = new Map<string, number>()
    for (let made = 0; made < 1_600; made++)
      for (const letter of randomId("x").slice(2)) counts.set(letter, (counts.get(letter) ?? 0) + 1)
    expect([...counts.keys()].toSorted().join("")).toBe("0123456789abcdefghjkmnpqrstvwxyz")
    // A thousand each: a fair letter is within a third of that but once in 10^25 runs.
    for (const count of counts.values()) expect(Math.abs(count - 1_000)).toBeLessThan(333)
  })
})
