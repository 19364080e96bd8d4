import { execFileSync } from "node:child_process"
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import type { ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { FileEntry } from "@berth/protocol/files"
import { TAR, writeComment, writeHeader } from "@berth/protocol/tar-header"
import { describe, expect, it, onTestFinished } from "vitest"
import { entry, type PlayedFiles, playFiles, tarEntry } from "../../testing/played-files.ts"
import { Budget } from "./budget.ts"
import { copyOut } from "./out.ts"
import { CopyReport } from "./report.ts"

/** Makes a folder to copy into, and beside it a folder that no copy may touch. */
const makePlaces = () => {
  const base = mkdtempSync(join(tmpdir(), "berth-cp-"))
  onTestFinished(() => rmSync(base, { recursive: true, force: true }))
  const [inside, outside] = [join(base, "inside"), join(base, "outside")]
  mkdirSync(inside)
  mkdirSync(outside, { mode: 0o700 })
  writeFileSync(join(outside, "own"), "untouched", { mode: 0o600 })
  const look = () => [
    readFileSync(join(outside, "own"), "utf8"),
    ...["", "own"].map((name) => {
      const { mode, uid, gid, ino, mtimeMs, ctimeMs } = lstatSync(join(outside, name))
      return { mode, uid, gid, ino, mtimeMs, ctimeMs }
    }),
    readdirSync(outside),
    readdirSync(base),
  ]
  const before = look()
  return { base, inside, outside, expectUntouched: () => expect(look()).toEqual(before) }
}

/** The arguments of a copy, with a report whose text is collected. */
const telling = (signal = new AbortController().signal) => {
  let said = ""
  const err = (text: string) => {
    said += text
  }
  return { signal, report: new CopyReport({ err, isScreen: () => false }), said: () => said }
}

/** Copies the folder `dir` of a played sandbox, and returns the error if it fails. */
const copy = async (played: PlayedFiles, into: string, how = telling()): Promise<unknown> =>
  await copyOut(await playFiles(played), "dir", `${into}/`, how).then(
    () => undefined,
    (thrown) => thrown,
  )

const listing = (...entries: readonly FileEntry[]) => entries

/** Lists the first entries in `dir`, and the others in each folder below it. */
const tree =
  (top: readonly FileEntry[], below: readonly FileEntry[] = []) =>
  (path: string) =>
    path === "dir" ? listing(...top) : listing(...below)

const folder = (name: string, mode = 0o755) => entry(name, { kind: "directory", mode })
const link = (name: string, target: string) => entry(name, { kind: "link", target })
const leftovers = (path: string) =>
  (readdirSync(path, { recursive: true }) as string[]).filter((name) => name.includes(".berth-"))

describe("copying out of a hostile sandbox", () => {
  it("writes through no link that a listing names before a folder of the same name", async () => {
    const { inside, outside, expectUntouched } = makePlaces()
    const list = tree([link("d", outside), folder("d", 0o777)], [entry("planted")])
    expect(await copy({ list }, inside)).toMatchObject({ code: "bridge.protocol_violated" })
    expectUntouched()
    // In the other order, and with a file as the second.
    const second = tree([folder("d", 0o777), link("d", outside)], [entry("planted")])
    expect(await copy({ list: second }, inside)).toMatchObject({ code: "bridge.protocol_violated" })
    const third = tree([link("d", join(outside, "own")), entry("d")])
    expect(await copy({ list: third }, inside)).toMatchObject({ code: "bridge.protocol_violated" })
    expectUntouched()
  })

  it.each([
    ["case", "readme", "README"],
    ["one letter in two forms", "\u00e9t\u00e9", "e\u0301te\u0301"],
    ["a letter that has two in capitals", "stra\u00dfe", "STRASSE"],
    ["a character that is not shown", "name", "na\u200bme"],
  ])("refuses names that some file systems take for the same: %s", async (_how, one, other) => {
    const { inside, outside, expectUntouched } = makePlaces()
    const list = tree([link(one, outside), folder(other)], [entry("planted")])
    expect(await copy({ list }, inside)).toMatchObject({ code: "copy.names_clash" })
    expectUntouched()
    expect(readdirSync(join(inside, "dir"))).toEqual([])
  })

  it.each(["", ".", "..", "../outside/own", "/etc/own", "a/b", "own\0", "x".repeat(256)])(
    "refuses %j, which is no valid name",
    async (name) => {
      const { inside, expectUntouched } = makePlaces()
      const path = { base64: Buffer.from(name).toString("base64") }
      for (const said of [entry(name), entry(path), entry(path, { kind: "directory" })])
        expect(await copy({ list: () => listing(said) }, inside)).toMatchObject({
          code: expect.stringMatching(/^(bridge\.protocol_violated|server\.reply_invalid)$/),
        })
      expectUntouched()
    },
  )

  it("makes no link in the place of the folder that was asked for", async () => {
    const { inside, outside, expectUntouched } = makePlaces()
    const stat = () => link("dir", outside)
    const list = () => listing(entry("planted"))
    expect(await copy({ stat, list }, inside)).toMatchObject({ code: "bridge.protocol_violated" })
    expect(readdirSync(inside)).toEqual([])
    expectUntouched()
  })

  it("replaces links that lie in its way, and follows none", async () => {
    const { inside, outside, expectUntouched } = makePlaces()
    mkdirSync(join(inside, "dir"))
    symlinkSync(outside, join(inside, "dir/sub"))
    symlinkSync(join(outside, "own"), join(inside, "dir/file"))
    symlinkSync(join(outside, "own"), join(inside, "dir/link"))
    const list = tree([folder("sub", 0o777), entry("file"), link("link", "file")], [entry("own")])
    expect(await copy({ list }, inside)).toBeUndefined()
    expect(readFileSync(join(inside, "dir/sub/own"), "utf8")).toBe("hello")
    expect(lstatSync(join(inside, "dir/file")).isFile()).toBe(true)
    expect(readlinkSync(join(inside, "dir/link"))).toBe("file")
    expectUntouched()
  })

  it.each(["listed", "filled"])(
    "stays in a folder that another process exchanges for a link while it is %s",
    async (when) => {
      const { inside, outside, expectUntouched } = makePlaces()
      const exchange = () => {
        const sub = join(inside, "dir/sub")
        if (lstatSync(sub).isSymbolicLink()) return
        renameSync(sub, join(inside, "away"))
        symlinkSync(outside, sub)
      }
      const list = async (path: string) => {
        if (path === "dir") return listing(folder("sub", 0o777))
        // The copy has made the folder by now, or is about to.
        await expect.poll(() => existsSync(join(inside, "dir/sub"))).toBe(true)
        if (when === "listed") exchange()
        return listing(...(path === "dir/sub" ? [folder("deep", 0o777)] : []), entry("own"))
      }
      expect(await copy({ list, onContent: exchange }, inside)).toBeUndefined()
      expect(readFileSync(join(inside, "away/own"), "utf8")).toBe("hello")
      expect(readFileSync(join(inside, "away/deep/own"), "utf8")).toBe("hello")
      expectUntouched()
    },
  )

  it("gives permission bits and no others, and leaves the modes of existing folders", async () => {
    const { inside } = makePlaces()
    mkdirSync(join(inside, "dir"))
    chmodSync(join(inside, "dir"), 0o700)
    const list = tree([folder("sub", 0o7777), entry("run", { mode: 0o6755 })])
    expect(await copy({ list }, inside)).toBeUndefined()
    const modeOf = (name: string) => statSync(join(inside, name)).mode & 0o7777
    expect([modeOf("dir"), modeOf("dir/run"), modeOf("dir/sub") & 0o7000]).toEqual([
      ...[0o700, 0o755, 0],
    ])
  })

  it("fills read-only folders, and gives them their mode also when it fails", async () => {
    const { inside } = makePlaces()
    const list = tree([folder("sub", 0o500)], [entry("a")])
    const onContent = (_path: string, response: ServerResponse) => response.destroy()
    expect(await copy({ list }, inside)).toBeUndefined()
    expect(statSync(join(inside, "dir/sub")).mode & 0o777).toBe(0o500)
    chmodSync(join(inside, "dir/sub"), 0o700)
    rmSync(join(inside, "dir"), { recursive: true })
    expect(await copy({ list, onContent }, inside)).toBeDefined()
    expect(statSync(join(inside, "dir/sub")).mode & 0o777).toBe(0o500)
    expect(leftovers(inside)).toEqual([])
  })

  it("takes as many bytes of a file as were listed, and refuses an endless file", async () => {
    const { inside } = makePlaces()
    const endless = (_path: string, response: ServerResponse) => {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, "x")));
        if (!response.destroyed) response.once("drain", more)
      }
      more()
    }
    const copyFile = async (size: number) => {
      const sandbox = await playFiles({ stat: (path) => entry(path, { size }), content: endless })
      return await copyOut(sandbox, "grown", `${inside}/`, telling()).catch((thrown) => thrown)
    }
    expect(await copyFile(100_000)).toBeUndefined()
    expect(statSync(join(inside, "grown")).size).toBe(100_000)
    expect(await copyFile(0)).toMatchObject({ code: "copy.too_large" })
    expect(await copyFile(Number.MAX_SAFE_INTEGER)).toMatchObject({ code: "copy.no_room" })
    const huge = tree([entry("huge", { size: Number.MAX_SAFE_INTEGER })])
    expect(await copy({ list: huge }, inside)).toMatchObject({ code: "copy.no_room" })
    expect(leftovers(inside)).toEqual([])
  })

  it.each<[string, Buffer]>([
    ["headers before an entry", tarEntry("x".repeat(101), entry("")).subarray(0, 1024)],
    ["bytes after its end", Buffer.alloc(65_536)],
  ])("gives up on an archive with %s without end", async (_, piece) => {
    const { inside } = makePlaces()
    const archive = (response: ServerResponse) => {
      const more = () => {
        while (!response.destroyed && response.write(piece));
        if (!response.destroyed) response.once("drain", more)
      }
      more()
    }
    expect(await copy({ archive }, inside)).toMatchObject({ code: "bridge.protocol_violated" })
    expect(readdirSync(join(inside, "dir"))).toEqual([])
  })

  it("gives up on entries and names without end", () => {
    const count = () => {
      const budget = new Budget()
      for (;;) budget.count()
    }
    expect(count).toThrow(expect.objectContaining({ code: "copy.too_large" }))
    const hold = () => {
      const budget = new Budget()
      for (;;) budget.hold(4_000, 1)
    }
    expect(hold).toThrow(expect.objectContaining({ code: "copy.too_large" }))
  })

  it("gives up on folders without end", async () => {
    const { inside } = makePlaces()
    expect(await copy({ list: () => listing(folder("d")) }, inside)).toMatchObject({
      code: "copy.too_large",
    })
  })

  it("puts no file in the place of a device, a pipe or a socket", async () => {
    const { inside } = makePlaces()
    const pipe = join(inside, "pipe")
    execFileSync("mkfifo", [pipe])
    const sandbox = await playFiles({ stat: (path) => entry(path) })
    symlinkSync("pipe", join(inside, "link"))
    for (const to of [pipe, join(inside, "link")])
      await expect(copyOut(sandbox, "file", to, telling())).rejects.toMatchObject({
        code: "input.usage",
      })
    expect(lstatSync(pipe).isFIFO()).toBe(true)
  })

  it("leaves the old file and nothing else when it is cancelled", async () => {
    const { inside } = makePlaces()
    writeFileSync(join(inside, "file"), "old")
    const cancelling = new AbortController()
    const stat = (path: string) => entry(path, { size: 1_000_000 })
    const content = (_path: string, response: ServerResponse) => {
      response.write("new", () => cancelling.abort())
    }
    const sandbox = await playFiles({ stat, content })
    const how = telling(cancelling.signal)
    await expect(copyOut(sandbox, "file", `${inside}/`, how)).rejects.toMatchObject({
      code: "cancelled",
    })
    expect(readFileSync(join(inside, "file"), "utf8")).toBe("old")
    expect(readdirSync(inside)).toEqual(["file"])
  })

  const raw =
    (...blocks: readonly Buffer[]) =>
    (response: ServerResponse) =>
      void response.end(Buffer.concat(blocks))
  const END = Buffer.alloc(1024)
  const none = { mode: 0o644, size: 0, modifiedAtMs: 0, uid: 0, gid: 0, target: Buffer.alloc(0) }
  const special = (name: string, type: string, target = "") =>
    writeHeader({ ...none, type, name: Buffer.from(name), target: Buffer.from(target) })
  const empty = (name: string) => tarEntry(name, entry("", { size: 0 }))
  const directory = (name: string) => tarEntry(name, folder(""))
  const damaged = empty("x")
  damaged[0] = 0x79

  it.each<[string, Buffer[]]>([
    ["a hard link to a file outside", [special("own", TAR.hardLink, "../../outside/own")]],
    ["a hard link to a file inside", [empty("a"), special("b", TAR.hardLink, "a")]],
    ["a device", [special("null", "3")]],
    ["a named pipe", [special("pipe", "6")]],
    ["an entry of an unknown kind", [special("x", "V")]],
    ["an entry of a folder that it has not named", [empty("a/b")]],
    ["an entry below a file", [empty("a"), empty("a/b")]],
    ["an entry below a link", [special("l", TAR.link, "../../outside"), empty("l/planted")]],
    ["a folder that it has left", [directory("a"), directory("b"), empty("b/x"), empty("a/y")]],
    ["a folder twice", [directory("a"), directory("b"), directory("a")]],
    ["a link in the place of a folder", [directory("a"), special("a", TAR.link, "../../outside")]],
    ["a folder below itself by dots", [directory("a"), empty("a/../b")]],
    ["a name with an empty part", [directory("a"), empty("a//b")]],
    ["an absolute name", [empty("/a")]],
    ["a wrong checksum", [damaged]],
    ["a link to nothing", [special("l", TAR.link)]],
    ["a remark that is no JSON", [writeComment(Buffer.from("hello"))]],
    ["a remark with an unknown reason", [writeComment(Buffer.from('{"path":"a","why":"x"}'))]],
  ])("refuses an archive that holds %s", async (_, blocks) => {
    const { inside, expectUntouched } = makePlaces()
    const archive = raw(...blocks, END)
    expect(await copy({ archive }, inside)).toMatchObject({ code: "bridge.protocol_violated" })
    expectUntouched()
    expect(leftovers(inside)).toEqual([])
    for (const name of readdirSync(join(inside, "dir"), { recursive: true }) as string[])
      expect(lstatSync(join(inside, "dir", name)).isSymbolicLink()).toBe(false)
  })

  it("refuses an archive that is cut short", async () => {
    const { inside } = makePlaces()
    for (const archive of [raw(empty("a")), raw(empty("a").subarray(0, 300)), raw()])
      expect(await copy({ archive }, inside)).toMatchObject({ code: "bridge.protocol_violated" })
  })

  it("keeps times and modes, also of folders, and bears a time that a file cannot have", async () => {
    const { inside } = makePlaces()
    const at = { modifiedAtMs: 1_000_000_000_000 }
    const list = tree(
      [
        entry("file", { ...at, mode: 0o751 }),
        entry("sub", { ...at, kind: "directory", mode: 0o750 }),
      ],
      [entry("far", { modifiedAtMs: 8 ** 11 * 1000 }), link("link", "far")],
    )
    expect(
      await copy({ list, stat: (path) => ({ ...folder(path, 0o711), ...at }) }, inside),
    ).toBeUndefined()
    for (const [name, mode] of [
      ...[["dir", 0o711] as const, ["dir/file", 0o751] as const, ["dir/sub", 0o750] as const],
    ]) {
      const { mode: given, mtimeMs } = statSync(join(inside, name))
      expect([name, given & 0o777, mtimeMs]).toEqual([
        name,
        mode & ~process.umask(),
        at.modifiedAtMs,
      ])
    }
    expect(readFileSync(join(inside, "dir/sub/far"), "utf8")).toBe("hello")
  })

  it("names skipped files in printable form, a few of many, and goes on", async () => {
    const { inside } = makePlaces()
    const left = (path: string, why: string) =>
      writeComment(Buffer.from(JSON.stringify({ path, why })))
    const how = telling()
    const many = Array.from({ length: 30 }, (_, number) => left(`s${number}`, "socket"))
    const archive = raw(left("p\u001b[2J\nberth: done", "pipe"), ...many, empty("after"), END)
    expect(await copy({ archive }, inside, how)).toBeUndefined()
    how.report[Symbol.dispose]()
    expect(readdirSync(join(inside, "dir"))).toEqual(["after"])
    const lines = how.said().split("\n")
    expect(lines[0]).toBe("skipped p\u{FFFD}[2J\u{FFFD}berth: done: it is a named pipe")
    expect([lines.length, lines.at(-2)]).toEqual([22, "skipped 11 more"])
    const closed = raw(left("secret", "unreadable"), empty("other"), END)
    expect(await copy({ archive: closed }, inside)).toMatchObject({ code: "copy.incomplete" })
    expect(readdirSync(join(inside, "dir")).toSorted()).toEqual(["after", "other"])
  })
})
