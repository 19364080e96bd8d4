import { execFileSync } from "node:child_process"
import { mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { ManualClock } from "../testing/manual-clock.ts"
import { LogFile } from "./log-file.ts"

let directory: string
let path: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-log-"))
  path = join(directory, "agent.log")
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const open = (maxBytes = 1000) => {
  const clock = new ManualClock()
  const problems: string[] = []
  const log = new LogFile({ path, maxBytes, clock, onProblem: (said) => problems.push(said) })
  const write = (said: string) => log.write(Buffer.from(said))
  return { log, write, clock, problems }
}

describe("LogFile", () => {
  it("appends to the content that is there", async () => {
    await writeFile(path, "before\n")
    const { log, write } = open()
    write("one\n")
    write("two\n")
    await log.close()
    expect(await readFile(path, "utf8")).toBe("before\none\ntwo\n")
    write("three\n")
    await log.close()
    expect(await readFile(path, "utf8")).toBe("before\none\ntwo\nthree\n")
  })

  it("begins anew when it is full, and keeps one older file", async () => {
    const { log, write } = open(100)
    for (let n = 0; n < 10; n++) {
      write(`${n}`.repeat(40))
      await log.close()
    }
    expect(await readFile(path, "utf8")).toBe("8".repeat(40) + "9".repeat(40))
    expect(await readFile(`${path}.1`, "utf8")).toBe("6".repeat(40) + "7".repeat(40))
  })

  it("leaves out the oldest output when the disk is slower, and says how much", async () => {
    const { log, write } = open(10_000)
    for (let n = 0; n < 100; n++) write("x".repeat(64 * 1024))
    await log.close()
    const kept = await readFile(path, "utf8")
    const said = Number(/\[(\d+) bytes are left out here\]/.exec(kept)?.[1])
    expect(said + kept.split("").filter((letter) => letter === "x").length).toBe(100 * 64 * 1024)
    expect((await stat(path)).size).toBeLessThan(10_100)
  })

  it("keeps at most 512 KiB in memory, whatever the file may hold", async () => {
    const { log, write } = open(100_000_000)
    for (let n = 0; n < 100; n++) write("x".repeat(64 * 1024))
    await log.close()
    const kept = (await readFile(path, "utf8")).split("").filter((letter) => letter === "x")
    expect(kept.length).toBeLessThanOrEqual(512 * 1024)
  })

  it("writes through no link and into no pipe, and reports the problem", async () => {
    await symlink("/dev/null", path)
    const { log, write, problems } = open()
    write("one")
    await log.close()
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain("ELOOP")
    await rm(path)
    execFileSync("mkfifo", [path])
    const other = open()
    other.write("one")
    await other.log.close()
    expect(other.problems[0]).toContain("ENXIO")
  })

  it("reports a problem once, and tries again later", async () => {
    await rm(directory, { recursive: true })
    const { log, write, clock, problems } = open()
    write("lost")
    await log.close()
    write("kept")
    await log.close()
    await clock.advance(10_000)
    write("too")
    await log.close()
    expect(problems).toHaveLength(1)
    await mkdir(directory)
    await clock.advance(10_000)
    write("kept")
    await log.close()
    expect(await readFile(path, "utf8")).toMatch(/^\n\[\d+ bytes are left out here\]\nkept$/)
    await rm(directory, { recursive: true })
    write("lost again")
    await log.close()
    await clock.advance(10_000)
    expect(problems).toHaveLength(2)
  })
})

requires("root").describe("LogFile on a full disk", () => {
  it("loses output that does not fit, reports it, and does not throw", async () => {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "tmpfs", directory])
    try {
      const { log, write, problems } = open(1_000_000)
      write("x".repeat(100_000))
      await log.close()
      expect(problems).toEqual([expect.stringContaining("ENOSPC")])
    } finally {
      execFileSync("umount", [directory])
    }
  })
})
