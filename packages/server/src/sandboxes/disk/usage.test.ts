import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { expect, it, onTestFinished } from "vitest"
import { measureUsage } from "./usage.ts"

const MB = 1024 * 1024

it("measures what each sandbox has: its tops, its own directory and its workspace's caches", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-usage-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const [one, other] = [newId.sandbox(), newId.sandbox()]
  const write = (place: string, name: string, bytes: number) => {
    mkdirSync(join(dataDir, place), { recursive: true })
    writeFileSync(join(dataDir, place, name), Buffer.alloc(bytes, 1))
  }
  const claim = (top: string, sandbox: SandboxId) => {
    write(join("layers/tops", top), "claim.json", 0)
    const text = JSON.stringify({ sandbox })
    writeFileSync(join(dataDir, "layers/tops", top, "claim.json"), text)
  }
  claim("tp-one", one)
  write("layers/tops/tp-one/tree", "large", 4 * MB)
  claim("tp-other", other)
  for (let file = 0; file < 50; file += 1) write("layers/tops/tp-other/tree", `file-${file}`, 0)
  write(`engine/sandboxes/${one}`, "log", MB)
  write("engine/caches/app", "package", 2 * MB)

  const sandboxes = [
    { sandbox: one, workspace: Slug.parse("app") },
    { sandbox: other, workspace: Slug.parse("web") },
  ]
  const { signal } = new AbortController()
  const bytes = await measureUsage(dataDir, sandboxes, "bytes", signal)
  expect(bytes.get(one)).toBeGreaterThanOrEqual(7 * MB)
  expect(bytes.get(other)).toBeLessThan(MB)
  const inodes = await measureUsage(dataDir, sandboxes, "inodes", signal)
  expect(inodes.get(one)).toBeLessThan(20)
  expect(inodes.get(other)).toBeGreaterThanOrEqual(50)
})
