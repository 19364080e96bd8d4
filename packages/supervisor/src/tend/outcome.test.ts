import { BootMode } from "@berth/protocol/boot"
import { expect, it } from "vitest"
import { EXIT, statusOf, staysUp } from "./outcome.ts"

it.each([
  ["fresh", "succeeded", 5, EXIT.ok],
  ["build", "succeeded", 5, EXIT.ok],
  ["fresh", "failed", null, EXIT.failed],
  ["fresh", "failed", 5, EXIT.failed],
  ["fresh", "cancelled", null, EXIT.stoppedWhileBooting],
  ["fresh", "cancelled", 5, EXIT.ok],
  ["build", "cancelled", 5, EXIT.stoppedWhileBooting],
] as const)(
  "ends a boot of mode %s that %s, ready at %s, with status %i",
  (mode, outcome, readyAtMs, status) => {
    expect(statusOf({ mode, outcome, readyAtMs })).toBe(status)
  },
)

it.each(BootMode.options)(
  "keeps a sandbox of mode %s up where somebody has a use for it",
  async (mode) => {
    const isUp = (outcome: "succeeded" | "failed" | "cancelled", isServed: boolean) =>
      staysUp({ mode, outcome }, Promise.resolve(isServed))
    const isNoBuild = mode !== "build"
    expect(await isUp("succeeded", false)).toBe(isNoBuild)
    expect(await isUp("failed", true)).toBe(isNoBuild)
    expect(await isUp("failed", false)).toBe(false)
    expect(await isUp("cancelled", true)).toBe(false)
  },
)
