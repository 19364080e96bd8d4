import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { expect, it, onTestFinished } from "vitest"
import { measurePatiently, measureUsage, type UsageParts } from "./usage.ts"

const MB = 1024 * 1024

const openDataDir = () => {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-usage-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  return dataDir
}

it("measures a sandbox's tops, its own directory and its workspace's caches", async () => {
  const dataDir = openDataDir()
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
  const directory = join(dataDir, "engine/caches/app")
  const cache = { workspace: Slug.parse("app"), cache: "npm", usedAt: null, directory } as const
  const parts: UsageParts = {
    dataDir,
    caches: async () => [cache],
    pidsOf: async () => new Map(),
  }

  const sandboxes = [
    { sandbox: one, workspace: Slug.parse("app") },
    { sandbox: other, workspace: Slug.parse("web") },
  ]
  const { signal } = new AbortController()
  const bytes = await measureUsage(parts, sandboxes, "bytes", signal)
  expect(bytes.get(one)).toBeGreaterThanOrEqual(7 * MB)
  expect(bytes.get(other)).toBeLessThan(MB)
  const inodes = await measureUsage(parts, sandboxes, "inodes", signal)
  expect(inodes.get(one)).toBeLessThan(20)
  expect(inodes.get(other)).toBeGreaterThanOrEqual(50)
})

it("measures deleted files that a process of the sandbox has open", async () => {
  const dataDir = openDataDir()
  const sandbox = { sandbox: newId.sandbox(), workspace: Slug.parse("app") }
  const path = join(dataDir, "unlinked")
  const file = openSync(path, "w")
  onTestFinished(() => closeSync(file))
  writeSync(file, Buffer.alloc(3 * MB, 1))
  unlinkSync(path)
  const parts: UsageParts = {
    dataDir,
    caches: async () => [],
    pidsOf: async () => new Map([[sandbox.sandbox, [process.pid]]]),
  }
  const { signal } = new AbortController()
  const { value: taken } = await measurePatiently(parts, [sandbox], signal).next()
  expect(taken?.used.bytes).toBeGreaterThanOrEqual(3 * MB)
  expect(taken?.used.inodes).toBeGreaterThanOrEqual(1)
})
