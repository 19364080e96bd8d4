import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { spread } from "@berth/testing/trees"
import { expect, it, onTestFinished } from "vitest"
import { removeInTime } from "./remove-tree.ts"

it("a removal that misses its deadline fails, and the next one completes it", async () => {
  const root = mkdtempSync(join(tmpdir(), "berth-remove-"))
  onTestFinished(() => rmSync(root, { recursive: true, force: true }))
  const target = join(root, "big")
  await mkdir(target)
  await spread(target, 2_000, 20, "file")
  const { signal } = new AbortController()
  const removing = removeInTime(Buffer.from(target), signal, 1)
  await expect(removing).rejects.toMatchObject({
    code: "deadline.exceeded",
    details: { deadlineMs: 1 },
  })
  expect(existsSync(target)).toBe(true)
  await removeInTime(Buffer.from(target), signal)
  expect(existsSync(target)).toBe(false)
})
