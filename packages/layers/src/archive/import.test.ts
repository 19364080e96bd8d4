import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import { Writable } from "node:stream"
import { zstdCompressSync, zstdDecompressSync } from "node:zlib"
import { BerthError } from "@berth/protocol/errors"
import { type LayerId, Slug } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import fc from "fast-check"
import { expect, it, vi } from "vitest"
import type { TarEntry } from "../tar/tar-read.ts"
import {
  directory,
  each,
  exportTo,
  file,
  importFrom,
  link,
  makeArchive,
  TREES,
  tarOf,
  withXattr,
} from "../testing/archive.ts"
import { ID_BASE } from "../testing/ids.ts"
import { key } from "../testing/key.ts"
import { makeRoot, openForTest, work, workAndFreeze } from "../testing/store.ts"

const shop = key("shop")
const TREE = directory("tree")

const importInto = async (root: string, archive: Buffer, limits = {}) => {
  const layers = await openForTest(root)
  return importFrom(layers, each([archive]), { limits })
}

const sparse = (path: string, map: string, data: string, realSize = "1000"): TarEntry => {
  const body = Buffer.concat([
    Buffer.from(map.padEnd(Math.ceil(map.length / 512) * 512, "\0")),
    Buffer.from(data),
  ])
  return {
    ...file("GNUSparseFile.0/x"),
    bodyBytes: body.length,
    body: each([body]),
    pax: new Map(
      Object.entries({ major: "1", minor: "0", name: path, realsize: realSize }).map(
        ([name, value]) => [`GNU.sparse.${name}`, Buffer.from(value)],
      ),
    ),
  }
}

/** Expects that an archive is refused, with nothing outside of the tree and nothing left in the store. */
const expectRefused = async (archive: Buffer, code = "layers.archive_refused", limits = {}) => {
  const root = makeRoot()
  await expect(importInto(join(root, "store"), archive, limits)).rejects.toMatchObject({ code })
  expect(readdirSync(root)).toEqual(["store"])
  for (const place of ["incoming", "layers", "pins", "trash"]) {
    expect(readdirSync(join(root, "store", place))).toEqual([])
  }
}

const REFUSED: readonly [string, readonly TarEntry[]][] = [
  ["a path that climbs out", [TREE, file("tree/../../evil")]],
  ["an absolute path", [TREE, file("/tmp/berth-evil")]],
  ["a path outside of the tree", [TREE, file("evil")]],
  ["a path that only begins like the tree", [TREE, file("tree2/evil")]],
  ["a path with an empty name", [TREE, file("tree//evil")]],
  ["a path with a dot", [TREE, file("tree/./evil")]],
  ["a name longer than any file system's", [TREE, file(`tree/${"x".repeat(256)}`)]],
  ["a file below a symbolic link", [TREE, link("tree/a", "/etc", "2"), file("tree/a/evil")]],
  [
    "a file in the place of a symbolic link",
    [TREE, link("tree/a", "/etc/evil", "2"), file("tree/a")],
  ],
  ["a directory that comes twice", [TREE, directory("tree/a"), directory("tree/a")]],
  ["a file in a directory that never came", [TREE, file("tree/a/b")]],
  ["a hard link to a file outside", [TREE, link("tree/a", "/etc/passwd", "1")]],
  ["a hard link that climbs out", [TREE, link("tree/a", "tree/../../../etc/passwd", "1")]],
  ["a hard link to a directory", [TREE, directory("tree/d"), link("tree/a", "tree/d", "1")]],
  ["a symbolic link to nowhere", [TREE, link("tree/a", "", "2")]],
  ["a device", [TREE, { ...file("tree/null"), type: "3", deviceMajor: 1, deviceMinor: 3 }]],
  ["a mark of an overlay for a deleted file", [TREE, { ...file("tree/a"), type: "3" }]],
  ["a disk", [TREE, { ...file("tree/disk"), type: "4", deviceMajor: 8 }]],
  ["an unknown type", [TREE, { ...file("tree/a"), type: "S" }]],
  ["a global header", [{ ...file("g"), type: "g" }, TREE]],
  ["a directory with contents", [TREE, { ...file("tree/d", "x"), type: "5" }]],
  ["an owner beyond the range", [TREE, { ...file("tree/a"), uid: 65_536 }]],
  ["a group beyond the range", [TREE, { ...file("tree/a"), gid: 4_000_000_000 }]],
  ["no tree", []],
  ["a tree that is a link", [link("tree", "/etc", "2"), file("tree/evil")]],
  ["an attribute of the kernel's", [TREE, withXattr(file("tree/a"), "security.selinux", "x")]],
  ...["trusted", "user"].flatMap((flavour) =>
    ["opaque", "redirect", "metacopy"].map((mark): [string, readonly TarEntry[]] => [
      `the mark ${mark} of an overlay, as ${flavour}`,
      [TREE, withXattr(directory("tree/a"), `${flavour}.overlay.${mark}`, "y")],
    ]),
  ),
  ["a damaged access list", [TREE, withXattr(file("tree/a"), "system.posix_acl_access", "xx")]],
  [
    "a capability of the host's",
    [TREE, withXattr(file("tree/a"), "security.capability", Buffer.alloc(24, 3))],
  ],
  ["a sparse file that climbs out", [TREE, sparse("tree/../evil", "1\n0\n3\n", "abc")]],
  ["a sparse file whose map is too long for it", [TREE, sparse("tree/a", "1\n999\n3\n", "abc")]],
  ["a sparse file whose map overlaps", [TREE, sparse("tree/a", "2\n0\n3\n1\n3\n", "abcabc")]],
  [
    "a sparse file whose map says more than there is",
    [TREE, sparse("tree/a", "1\n0\n30\n", "abc")],
  ],
  ["a sparse file without end of map", [TREE, sparse("tree/a", "9", "")]],
  [
    "a sparse file of another form",
    [
      TREE,
      { ...sparse("tree/a", "0\n", ""), pax: new Map([["GNU.sparse.size", Buffer.from("1")]]) },
    ],
  ],
  ["a sparse directory", [TREE, { ...sparse("tree/a", "", ""), type: "5" }]],
]

requires("root").describe("import refuses", () => {
  it.each(REFUSED)("%s", async (_, entries) => {
    await expectRefused(await makeArchive(entries))
    expect(existsSync("/tmp/berth-evil")).toBe(false)
  })

  it("more entries or more bytes than the limits", async () => {
    const archive = await makeArchive([TREE, file("tree/a", "x".repeat(1000)), file("tree/b")])
    await expectRefused(archive, "layers.archive_too_large", { maxEntries: 2 })
    await expectRefused(archive, "layers.archive_too_large", { maxBytes: 999 })
  })

  it("a small archive that unpacks to more than the limit, without unpacking it", async () => {
    const bomb = await makeArchive([TREE, { ...file("tree/a"), ...zeros(200_000_000) }])
    expect(bomb.length).toBeLessThan(100_000)
    await expectRefused(bomb, "layers.archive_too_large", { maxBytes: 100_000_000 })
  })

  it("bytes that are no archive, and an archive of another form", async () => {
    await expectRefused(Buffer.from("not an archive"))
    await expectRefused(Buffer.alloc(0))
    await expectRefused(zstdCompressSync(Buffer.from("not an archive")))
    await expectRefused(zstdCompressSync(await tarOf([TREE, file("tree/a")])))
    await expectRefused(await makeArchive([TREE], { version: 2 as never }))
  })

  it("an archive with other trees than the requested ones, or with trees in another order", async () => {
    const other = Slug.parse("other")
    await expectRefused(await makeArchive([TREE], { trees: [other] }))
    await expectRefused(await makeArchive([TREE], { trees: [...TREES, other] }))
    await expectRefused(await makeArchive([directory("other"), TREE]))
    await expectRefused(await makeArchive([TREE, directory("other")]))
  })

  it("an archive for which the disk has no room, before it is full", async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    const archive = await makeArchive([TREE, { ...file("tree/a"), ...zeros(100_000_000) }])
    let looks = 0
    const assertRoom = async () => {
      looks += 1
      if (looks > 3) throw new BerthError("layers.disk_full", "no room")
    }
    const imported = importFrom(layers, each([archive]), { assertRoom })
    await expect(imported).rejects.toMatchObject({ code: "layers.disk_full" })
    expect(looks).toBe(4)
    expect(readdirSync(join(root, "incoming"))).toEqual([])
  })

  it("archives that are cut short, or damaged in their contents, at random places", async () => {
    const root = makeRoot()
    const contents = "contents ".repeat(500)
    const whole = await makeArchive([TREE, directory("tree/d"), file("tree/d/f", contents)])
    const layers = await openForTest(root)
    const damage = fc.record({
      at: fc.nat(whole.length - 1),
      change: fc.integer({ min: 1, max: 255 }),
      cut: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(damage, async ({ at, change, cut }) => {
        const damaged = Buffer.from(cut ? whole.subarray(0, at) : whole)
        if (!cut) damaged.writeUInt8((damaged[at] ?? 0) ^ change, at)
        try {
          // A few bits of zstd mean nothing, so that an archive without them is still whole.
          const { layer, pin } = await importFrom(layers, each([damaged]))
          expect(readFileSync(join(root, "layers", layer, "tree/d/f"), "utf8")).toBe(contents)
          expect(cut).toBe(false)
          await layers.unpin(pin)
          await layers.collect()
        } catch (thrown) {
          expect(thrown).toMatchObject({ code: expect.stringMatching(/^layers\.archive_/) })
        }
        expect(readdirSync(join(root, "layers"))).toEqual([])
        expect(readdirSync(join(root, "incoming"))).toEqual([])
      }),
      { numRuns: 60 },
    )
  })
})

const treesOf = (layer: LayerId) => TREES.map((name) => ({ name, layer }))

const cwdOf = (pid: string): string => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ""
  }
}

const zeros = (bytes: number) => ({
  bodyBytes: bytes,
  body: each(Array.from({ length: bytes / 1_000_000 }, () => Buffer.alloc(1_000_000))),
})

requires("root").describe("import and export", () => {
  it("carry access lists and capabilities over to the other range of ids", async () => {
    const acl = Buffer.from(
      "0200000001000600ffffffff02000400e803000004000400ffffffff10000600ffffffff20000400ffffffff",
      "hex",
    )
    const capability = Buffer.from("0100000200040000000000000000000000000000", "hex")
    const archive = await makeArchive([
      TREE,
      withXattr(
        withXattr(file("tree/a", "x"), "system.posix_acl_access", acl),
        "security.capability",
        capability,
      ),
      withXattr(directory("tree/d"), "user.mine", Buffer.from([0, 1, 10, 61, 255])),
    ])
    const root = makeRoot()
    const layers = await openForTest(root)
    const { layer } = await importFrom(layers, each([archive]))
    const onDisk = execFileSync("tar", [
      "-C",
      join(root, "layers", layer),
      "--format=pax",
      "--xattrs",
      "--xattrs-include=*",
      "-c",
      "tree",
    ])
    const ranged = Buffer.alloc(4)
    ranged.writeUInt32LE(ID_BASE + 1000)
    expect(onDisk.includes(ranged)).toBe(true)
    const owner = Buffer.alloc(4)
    owner.writeUInt32LE(ID_BASE)
    expect(
      onDisk.includes(
        Buffer.concat([Buffer.from("01000003", "hex"), capability.subarray(4), owner]),
      ),
    ).toBe(true)
    expect(
      onDisk.includes(Buffer.concat([Buffer.from("user.mine="), Buffer.from([0, 1, 10, 61, 255])])),
    ).toBe(true)

    const again = join(root, "again.tar.zst")
    await exportTo(layers, layer, again)
    const exported = zstdDecompressSync(readFileSync(again))
    expect(exported.includes(acl)).toBe(true)
    expect(exported.includes(capability)).toBe(true)
    expect(exported.includes(ranged)).toBe(false)
  })

  it("leave out a socket, and the file of a lower layer that it hides", async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    await workAndFreeze(layers, shop, "echo below > sock; echo below > gone; echo below > kept")
    const listen = `require("net").createServer().listen("sock", () => process.kill(process.pid, "SIGKILL"))`
    const { layer } = await workAndFreeze(
      layers,
      shop,
      `rm sock gone; ${process.execPath} -e '${listen}' || test -S sock`,
    )
    const other = await openForTest(makeRoot())
    const archive = join(root, "one.tar.zst")
    await exportTo(layers, layer, archive)
    const carried = await importFrom(other, each([readFileSync(archive)]))
    await other.put(shop, carried.layer)
    expect(await work(other, shop, "ls")).toBe("kept\n")
  })

  it("end the programs that they started when the archive's reader leaves", async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    const script = "for i in $(seq 20); do head -c 1000000 /dev/urandom > f$i; done"
    const { layer } = await workAndFreeze(layers, shop, script)
    const gone = new Writable({ write: (_, __, done) => done(new Error("gone")) })
    await expect(layers.exportTrees(treesOf(layer), gone, { isBooted: true })).rejects.toThrow(
      "gone",
    )
    const workers = () => readdirSync("/proc").filter((pid) => cwdOf(pid).startsWith(root))
    await vi.waitUntil(() => workers().length === 0)
  })

  it("report in the program's words why a layer cannot be read", async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    await layers.put(shop, null)
    const { layer } = await workAndFreeze(layers, shop, "echo 1 > f")
    await rm(join(root, "layers", layer, "tree"), { recursive: true })
    const nowhere = new Writable({ write: (_, __, done) => done() })
    const exported = layers.exportTrees(treesOf(layer), nowhere, { isBooted: true })
    await expect(exported).rejects.toMatchObject({
      code: "layers.io",
      details: { said: expect.stringMatching(/mount: .*tree/) },
    })
  })

  it("stop at a cancel, and leave nothing", async () => {
    const root = makeRoot()
    const layers = await openForTest(root)
    const stop = new AbortController()
    const archive = await makeArchive([TREE, { ...file("tree/a"), ...zeros(50_000_000) }])
    async function* endless() {
      yield archive.subarray(0, -1)
      stop.abort(new Error("no longer wanted"))
      await new Promise(() => {})
    }
    const imported = importFrom(layers, endless(), { signal: stop.signal })
    await expect(imported).rejects.toThrow("no longer wanted")
    expect(readdirSync(join(root, "incoming"))).toEqual([])
  })
})

requires("root").it(
  "refuses an archive whose headers unpack to far more than its limits",
  async () => {
    const padded = (name: string): TarEntry => ({
      ...file(`tree/${name}`),
      pax: new Map([["comment", Buffer.alloc(900_000, "x")]]),
    })
    const archive = await makeArchive([TREE, ...["a", "b", "c", "d", "e"].map(padded)])
    expect(archive.length).toBeLessThan(10_000)
    await expectRefused(archive, "layers.archive_too_large", { maxBytes: 1, maxEntries: 10 })
  },
)

requires("root").it("refuses an archive whose names have more bytes than the limit", async () => {
  const links = Array.from({ length: 300 }, (_, at) =>
    link(`tree/${at}`, `/${"x".repeat(4_000)}`, "2"),
  )
  const archive = await makeArchive([TREE, ...links])
  await expectRefused(archive, "layers.archive_too_large", { maxNameBytes: 1024 * 1024 })
})

requires("root").it("refuses an archive that goes on after its end", async () => {
  const archive = await makeArchive([TREE, file("tree/a")])
  const endless = Buffer.concat([zstdDecompressSync(archive), Buffer.alloc(8 * 1024 * 1024)])
  await expectRefused(zstdCompressSync(endless))
})
