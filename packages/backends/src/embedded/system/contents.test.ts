import { execFileSync } from "node:child_process"
import { appendFile, mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { beforeEach, describe, expect, it } from "vitest"
import { openContents } from "./contents.ts"

/** A directory that plays a system. */
let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-contents-"))
  for (const file of [
    "usr/lib/os-release",
    "var/lib/dpkg/status",
    "usr/bin/sh",
    "etc/resolv.conf",
    "usr/lib/python3/os.py",
  ])
    await write(file, `${file}\n`)
  return () => rm(root, { recursive: true, force: true })
})

const write = async (path: string, text = ""): Promise<void> => {
  await mkdir(dirname(join(root, path)), { recursive: true })
  await writeFile(join(root, path), text)
}

describe("the contents of a system tree", () => {
  it.each<[string, () => Promise<unknown>]>([
    [
      "a package was installed",
      () => appendFile(join(root, "var/lib/dpkg/status"), "Package: jq\n"),
    ],
    ["the release changed", () => write("usr/lib/os-release", "ID=other-thing\n")],
    ["a program was added", () => write("usr/bin/jq")],
    ["a program was removed", () => rm(join(root, "usr/bin/sh"))],
    ["a directory of programs was added", () => write("usr/local/bin/tool")],
  ])("[R1.2] have another hash when %s", async (_what, change) => {
    const read = openContents()
    const before = read(root)
    expect(read(root)).toBe(before)
    await change()
    expect(read(root)).not.toBe(before)
  })

  it.each<[string, () => Promise<unknown>]>([
    ["a log", () => write("var/log/syslog", "line\n")],
    ["a name server", () => write("etc/resolv.conf", "nameserver 127.0.0.1\n")],
    ["a compiled module of Python", () => write("usr/lib/python3/os.pyc", "compiled\n")],
    ["the time of the list of packages", () => utimes(join(root, "var/lib/dpkg/status"), 1, 1)],
  ])("have the same hash when %s is written, as happens all the time", async (_what, change) => {
    const read = openContents()
    const before = read(root)
    await change()
    expect(read(root)).toBe(before)
    expect(openContents()(root)).toBe(before)
  })

  it("have a hash also where a pipe is in the place of a list, and where there is no tree", async () => {
    await rm(join(root, "var/lib/dpkg/status"))
    execFileSync("mkfifo", [join(root, "var/lib/dpkg/status")])
    expect(openContents()(root)).toMatch(/^[0-9a-f]{64}$/)
    expect(openContents()(join(root, "absent"))).toMatch(/^[0-9a-f]{64}$/)
  })
})
