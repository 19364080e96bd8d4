import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { openReserve, PIECES } from "./reserve.ts"

const makeDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "berth-reserve-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

it("takes blocks and inodes, gives them up piece by piece, and takes the missing pieces again", async () => {
  const dataDir = makeDirectory()
  const reserve = openReserve(dataDir)
  expect(reserve.release()).toBe(false)
  await reserve.fill()
  expect(reserve.left()).toBe(PIECES)
  const first = join(dataDir, "reserve", "0")
  const { blocks } = statSync(join(first, "blocks"))
  expect(blocks * 512).toBeGreaterThanOrEqual(4_000_000)
  expect(readdirSync(first).length).toBeGreaterThan(60)

  for (let left = PIECES - 1; left >= 0; left -= 1) {
    expect(reserve.release()).toBe(true)
    expect(reserve.left()).toBe(left)
  }
  expect(reserve.release()).toBe(false)
  expect(readdirSync(join(dataDir, "reserve"))).toEqual([])

  await reserve.fill()
  expect(openReserve(dataDir).left()).toBe(PIECES)
})
