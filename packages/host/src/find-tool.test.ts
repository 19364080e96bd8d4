import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { findTool } from "./find-tool.ts"

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-find-"))
  await mkdir(join(directory, "first", "tool"), { recursive: true })
  await mkdir(join(directory, "second"))
  await mkdir(join(directory, "third"))
  await writeFile(join(directory, "second", "tool"), "no program")
  await chmod(join(directory, "second", "tool"), 0o644)
  await writeFile(join(directory, "third", "tool"), "#!/bin/sh\n")
  await chmod(join(directory, "third", "tool"), 0o755)
})
afterAll(() => rm(directory, { recursive: true, force: true }))

describe("findTool", () => {
  it("takes the first executable file and passes over directories and plain files of that name", async () => {
    const path = ["/nowhere", "first", "second", "third"].map((part) => join(directory, part))
    expect(await findTool("tool", path.join(":"))).toBe(join(directory, "third", "tool"))
  })

  it.each(["", ":", "/nowhere"])("finds nothing on the path %j", async (path) => {
    expect(await findTool("sh", path)).toBeUndefined()
  })

  it("does not look in relative directories, which depend on where the server was started", async () => {
    const path = relative(process.cwd(), join(directory, "third"))
    expect(await findTool("tool", path)).toBeUndefined()
  })
})
