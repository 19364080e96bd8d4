import { newId, Slug } from "@berth/protocol/ids"
import { ConfigHash } from "@berth/protocol/sandbox"
import { describe, expect, it } from "vitest"
import type { EngineState } from "./backend.ts"
import { hasToChange, refuseForeign, refuseOtherConfiguration, refuseUnknown } from "./refusals.ts"

const identity = {
  installation: newId.installation(),
  workspace: Slug.parse("a"),
  sandbox: newId.sandbox(),
  configHash: ConfigHash.parse("0".repeat(64)),
}

describe("hasToChange", () => {
  it.each([
    ["start", "created", true],
    ["start", "running", false],
    ["pause", "running", true],
    ["pause", "paused", false],
    ["resume", "paused", true],
    ["resume", "running", false],
  ] as const)("tells for %s of a sandbox that is %s: %s", (change, state, expected) => {
    expect(hasToChange(change, { identity, state })).toBe(expected)
  })

  const refused: [change: "start" | "pause" | "resume", state: EngineState, needed: EngineState][] =
    [
      ["start", "paused", "created"],
      ["start", "exited", "created"],
      ["pause", "created", "running"],
      ["pause", "exited", "running"],
      ["resume", "created", "paused"],
      ["resume", "exited", "paused"],
    ]
  it.each(refused)("refuses %s of a sandbox that is %s", (change, state, needed) => {
    expect(() => hasToChange(change, { identity, state })).toThrow(
      expect.objectContaining({
        code: "backend.wrong_state",
        details: { sandbox: identity.sandbox, state, needed },
      }),
    )
  })
})

describe("refusals", () => {
  it("refuse a sandbox of another installation, and no other", () => {
    const other = newId.installation()
    expect(() => refuseForeign(identity, identity.installation)).not.toThrow()
    expect(() => refuseForeign(identity, other)).toThrow(
      expect.objectContaining({
        code: "input.invalid",
        details: {
          path: "identity.installation",
          given: identity.installation,
          allowed: other,
        },
      }),
    )
  })

  it("refuse another configuration under the same id, and no other", () => {
    const configHash = ConfigHash.parse("1".repeat(64))
    expect(() => refuseOtherConfiguration(identity, identity)).not.toThrow()
    expect(() => refuseOtherConfiguration(identity, { configHash })).toThrow(
      expect.objectContaining({
        code: "backend.conflict",
        details: { sandbox: identity.sandbox, given: identity.configHash, exists: configHash },
      }),
    )
  })

  it("name the sandbox that is unknown", () => {
    expect(() => refuseUnknown(identity.sandbox)).toThrow(
      expect.objectContaining({
        code: "backend.unknown_sandbox",
        details: { sandbox: identity.sandbox },
      }),
    )
  })
})
