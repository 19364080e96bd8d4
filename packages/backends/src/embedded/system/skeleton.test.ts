import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { run } from "@berth/host/run"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { pruneSystems, writeSkeleton } from "./skeleton.ts"
import type { Entry, SystemPlan } from "./tree.ts"

let place: string
let systems: string
beforeEach(async () => {
  place = await mkdtemp(join(tmpdir(), "berth-skeleton-"))
  await chmod(place, 0o711)
  systems = join(place, "systems")
  await mkdir(join(place, "from/deep"), { recursive: true })
  await writeFile(join(place, "from/file"), "first")
  await writeFile(join(place, "from/program"), "", { mode: 0o755 })
  await writeFile(join(place, "from/secret"), "secret", { mode: 0o600 })
  await mkdir(join(place, "from/closed"), { mode: 0o700 })
  await symlink("/nowhere", join(place, "from/deep/link"))
})
afterEach(() => rm(place, { recursive: true, force: true }))

const plan = (more: Readonly<Record<string, Entry>> = {}): SystemPlan => ({
  entries: new Map(
    Object.entries({
      "/tmp": { kind: "directory", mode: 0o1777 },
      "/etc/name": { kind: "file", content: "text" },
      "/etc/link": { kind: "link", to: "name" },
      "/etc/from": { kind: "copy", from: join(place, "from") },
      ...more,
    }),
  ),
  binds: [{ source: "/usr", target: "/usr", readOnly: true }],
})
const signal = () => AbortSignal.timeout(10_000)
const write = (more?: Readonly<Record<string, Entry>>) =>
  writeSkeleton(plan(more), systems, signal())

describe("a root directory", () => {
  it("holds the plan's entries with their modes, also under a strict umask", async () => {
    const before = process.umask(0o077)
    try {
      const { root, key, binds } = await write()
      expect(root).toBe(join(systems, key))
      expect(binds).toHaveLength(1)
      expect((await stat(root)).mode & 0o7777).toBe(0o755)
      expect((await stat(join(root, "tmp"))).mode & 0o7777).toBe(0o1777)
      expect((await stat(join(root, "etc"))).mode & 0o7777).toBe(0o755)
      expect((await stat(join(root, "etc/name"))).mode & 0o7777).toBe(0o644)
      expect((await stat(join(root, "etc/from/program"))).mode & 0o7777).toBe(0o755)
      expect(await readFile(join(root, "etc/link"), "utf8")).toBe("text")
      expect(await readlink(join(root, "etc/from/deep/link"))).toBe("/nowhere")
    } finally {
      process.umask(before)
    }
  })

  it("holds no copy of a file that not everybody may read", async () => {
    const { root } = await write()
    expect((await readdir(join(root, "etc/from"))).sort()).toEqual(["deep", "file", "program"])
  })

  it("is made once, also for eight callers at once", async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => write()))
    expect(new Set(all.map(({ root }) => root)).size).toBe(1)
    expect(await readdir(systems)).toEqual([all[0]?.key])
    const made = await stat(join(all[0]?.root ?? "", "etc/name"))
    await write()
    expect((await stat(join(all[0]?.root ?? "", "etc/name"))).ino).toBe(made.ino)
  })

  it.each<[string, () => Promise<unknown>]>([
    ["a file's content", () => writeFile(join(place, "from/file"), "other")],
    ["a file's mode", () => chmod(join(place, "from/file"), 0o600)],
    ["a new file deep down", () => writeFile(join(place, "from/deep/new"), "")],
    [
      "where a link leads",
      async () => {
        await rm(join(place, "from/deep/link"))
        await symlink("/elsewhere", join(place, "from/deep/link"))
      },
    ],
  ])("is another one after a change of %s", async (_, change) => {
    const before = await write()
    await change()
    const after = await write()
    expect(after.key).not.toBe(before.key)
    expect(await readFile(join(before.root, "etc/from/file"), "utf8")).toBe("first")
  })

  it("cannot be made once a tree to copy has disappeared", async () => {
    const before = await write()
    await rm(join(place, "from"), { recursive: true })
    await expect(write()).rejects.toMatchObject({ code: "backend.engine_failed" })
    expect(await readdir(systems)).toEqual([before.key])
  })

  it("is another one for another plan", async () => {
    const one = await write()
    const other = await write({ "/data": { kind: "directory", mode: 0o755 } })
    expect(other.key).not.toBe(one.key)
  })

  it("is absent after a cancel, with nothing beside it", async () => {
    const stop = new AbortController()
    const writing = writeSkeleton(plan(), systems, stop.signal)
    stop.abort(new Error("enough"))
    await expect(writing).rejects.toThrow("enough")
    expect(await readdir(systems).catch(() => [])).toEqual([])
  })

  it("is absent when the disk is full, with a typed error and nothing beside it", async () => {
    await mkdir(systems)
    await writeFile(join(place, "from/large"), Buffer.alloc(2 * 1024 * 1024))
    await run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "small", systems], {
      signal: signal(),
    })
    try {
      await expect(write()).rejects.toMatchObject({ code: "backend.disk_full" })
      expect(await readdir(systems)).toEqual([])
    } finally {
      await run(["umount", systems], { signal: signal() })
    }
  })
})

describe("pruning", () => {
  it("removes trees that no sandbox stands on, and a tree that a crash left half-written", async () => {
    const kept = await write()
    const other = await write({ "/data": { kind: "directory", mode: 0o755 } })
    await mkdir(join(systems, ".new-crashed/etc"), { recursive: true })
    const removed = await pruneSystems(systems, new Set([kept.key]))
    expect([...removed].sort()).toEqual([".new-crashed", other.key].sort())
    expect(await readdir(systems)).toEqual([kept.key])
  })

  it("that breaks off leaves nothing that is taken for a root", async () => {
    const { root } = await write()
    const stays = join(root, "etc/from/deep")
    await run(["mount", "-t", "tmpfs", "busy", stays], { signal: signal() })
    try {
      await expect(pruneSystems(systems, new Set())).rejects.toThrow("EBUSY")
      const again = await write()
      expect(again.root).toBe(root)
      expect((await readdir(join(root, "etc"))).sort()).toEqual(["from", "link", "name"])
    } finally {
      const { stdout } = await run(["findmnt", "-rno", "TARGET", "-t", "tmpfs"], {
        signal: signal(),
      })
      const mounted = stdout.split("\n").filter((target) => target.startsWith(systems))
      for (const target of mounted) await run(["umount", target], { signal: signal() })
    }
    await pruneSystems(systems, new Set())
    expect(await readdir(systems)).toEqual([])
  })

  it("removes nothing where nothing was made", async () => {
    expect(await pruneSystems(join(place, "none"), new Set())).toEqual([])
  })
})
