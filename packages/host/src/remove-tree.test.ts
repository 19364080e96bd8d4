import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs"
import { lstat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { nest, spread } from "@berth/testing/trees"
import { describe, expect, it } from "vitest"
import { removeSmallTree } from "./remove-tree.ts"

const make = (): string => mkdtempSync(join(tmpdir(), "berth-remove-"))
const isGone = (path: string) =>
  lstat(path).then(
    () => false,
    ({ code }) => code === "ENOENT",
  )

describe("the removal of a small tree", () => {
  it("removes files and folders", async () => {
    const tree = make()
    mkdirSync(join(tree, "a/b"), { recursive: true })
    writeFileSync(join(tree, "a/b/c"), "")
    await removeSmallTree(tree)
    expect(await isGone(tree)).toBe(true)
  })

  it("removes a single file, and accepts a path that does not exist", async () => {
    const file = join(make(), "file")
    writeFileSync(file, "")
    await removeSmallTree(file)
    await removeSmallTree(file)
    expect(await isGone(file)).toBe(true)
    await removeSmallTree(join(file, ".."))
  })

  it("removes a tree that a sandbox made wide", async () => {
    const tree = make()
    await spread(tree, 1_000, 100, "file")
    await removeSmallTree(tree)
    expect(await isGone(tree)).toBe(true)
  })

  it("removes a tree that a sandbox made deeper than a path can be long", async () => {
    const tree = make()
    await nest(tree, 100, 255)
    await removeSmallTree(tree)
    expect(await isGone(tree)).toBe(true)
  })
})
