import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { nearestDirectory } from "./nearest-directory.ts"

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-nearest-"))
  await writeFile(join(directory, "file"), "")
})
afterAll(() => rm(directory, { recursive: true, force: true }))

describe("nearestDirectory", () => {
  it.each([
    [".", "."],
    ["a/b/c", "."],
    ["file", "."],
    ["file/below", "."],
    ["../..", "../.."],
  ])("of %s is %s", async (path, expected) => {
    expect(await nearestDirectory(join(directory, path))).toBe(resolve(directory, expected))
  })

  it("ends at the root", async () => {
    expect(await nearestDirectory("/no-such/directory")).toBe("/")
  })
})
