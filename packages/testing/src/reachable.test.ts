import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { closedAbove } from "./reachable.ts"

it("the uppermost directory that others cannot enter is named", () => {
  const base = mkdtempSync(join(tmpdir(), "berth-reachable-"))
  onTestFinished(() => rmSync(base, { recursive: true }))
  const home = join(base, "home")
  const bin = join(home, "project", "bin")
  mkdirSync(bin, { recursive: true, mode: 0o755 })
  chmodSync(base, 0o711)
  const program = join(bin, "node")
  expect(closedAbove(program)).toBeUndefined()
  chmodSync(bin, 0o700)
  expect(closedAbove(program)).toBe(bin)
  chmodSync(home, 0o750)
  expect(closedAbove(program)).toBe(home)
})
