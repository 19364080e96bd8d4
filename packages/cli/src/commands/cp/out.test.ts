import { execFileSync } from "node:child_process"
import {
  chmodSync,
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
import { describe, expect, it, onTestFinished } from "vitest"
import { entry, type PlayedFiles, playFiles } from "../../testing/played-files.ts"
import { copyOut } from "./out.ts"

/** A folder to copy into, and beside it one that no copy may touch. */
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

const never = new AbortController().signal

/** Copies the folder `dir` of a played sandbox; gives what it failed of. */
const copy = async (played: PlayedFiles, into: string): Promise<unknown> =>
  await copyOut(await playFiles(played), "dir", `${into}/`, never).then(
    () => undefined,
    (thrown) => thrown,
  )

const listing = (...entries: readonly FileEntry[]) => ({ entries, cut: false })

/** `dir` holds the first entries, and each folder below it the others. */
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
  ])("refuses names that some file systems take for one: %s", async (_how, one, other) => {
    const { inside, outside, expectUntouched } = makePlaces()
    const list = tree([link(one, outside), folder(other)], [entry("planted")])
    expect(await copy({ list }, inside)).toMatchObject({ code: "copy.names_clash" })
    expectUntouched()
    expect(readdirSync(join(inside, "dir"))).toEqual([])
  })

  it.each(["", ".", "..", "../outside/own", "/etc/own", "a/b", "own\0", "x".repeat(256)])(
    "refuses %j, which is no name",
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

  it("makes no link of what was asked for itself", async () => {
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
      const list = (path: string) => {
        if (path === "dir") return listing(folder("sub", 0o777))
        if (when === "listed") exchange()
        return listing(...(path === "dir/sub" ? [folder("deep", 0o777)] : []), entry("own"))
      }
      const content = (_path: string, response: ServerResponse) => {
        exchange()
        response.end("hello")
      }
      expect(await copy({ list, content }, inside)).toBeUndefined()
      expect(readFileSync(join(inside, "away/own"), "utf8")).toBe("hello")
      expect(readFileSync(join(inside, "away/deep/own"), "utf8")).toBe("hello")
      expectUntouched()
    },
  )

  it("gives no more than permissions, and none to folders that were there", async () => {
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

  it("fills folders that nobody may write to, and gives them their mode also when it fails", async () => {
    const { inside } = makePlaces()
    const list = tree([folder("sub", 0o500)], [entry("a")])
    const content = (_path: string, response: ServerResponse) => response.destroy()
    expect(await copy({ list }, inside)).toBeUndefined()
    expect(statSync(join(inside, "dir/sub")).mode & 0o777).toBe(0o500)
    chmodSync(join(inside, "dir/sub"), 0o700)
    rmSync(join(inside, "dir"), { recursive: true })
    expect(await copy({ list, content }, inside)).toBeDefined()
    expect(statSync(join(inside, "dir/sub")).mode & 0o777).toBe(0o500)
    expect(leftovers(inside)).toEqual([])
  })

  it("takes of a file as much as was listed, and no endless one", async () => {
    const { inside } = makePlaces()
    const endless = (_path: string, response: ServerResponse) => {
      const more = () => {
        while (!response.destroyed && response.write(Buffer.alloc(65_536, "x")));
        if (!response.destroyed) response.once("drain", more)
      }
      more()
    }
    const list = tree([entry("grown", { size: 100_000 })])
    expect(await copy({ list, content: endless }, inside)).toBeUndefined()
    expect(statSync(join(inside, "dir/grown")).size).toBe(100_000)
    const empty = tree([entry("empty", { size: 0 }), entry("other")])
    expect(await copy({ list: empty, content: endless }, inside)).toMatchObject({
      code: "copy.too_large",
    })
    const huge = tree([entry("huge", { size: Number.MAX_SAFE_INTEGER })])
    expect(await copy({ list: huge, content: endless }, inside)).toMatchObject({
      code: "copy.no_room",
    })
    expect(leftovers(inside)).toEqual([])
  })

  it("gives up on listings without end", async () => {
    const { inside } = makePlaces()
    const many = Array.from({ length: 10_001 }, (_, number) => entry(`f${number}`))
    expect(await copy({ list: () => listing(...many) }, inside)).toBeDefined()
    const objects = `{"cut":false,"entries":[${"{},".repeat(200_000)}{}]}`
    expect(await copy({ list: () => objects }, inside)).toBeDefined()
    const endless = () => (response: ServerResponse) => {
      response.write('{"cut":false,"entries":[')
      const more = () => {
        while (!response.destroyed && response.write(" ".repeat(1 << 20)));
        if (!response.destroyed) response.once("drain", more)
      }
      more()
    }
    expect(await copy({ list: endless }, inside)).toMatchObject({ code: "server.reply_invalid" })
    expect(readdirSync(join(inside, "dir"))).toEqual([])
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
    const sandbox = await playFiles({ stat: (path) => entry(path), list: () => listing() })
    symlinkSync("pipe", join(inside, "link"))
    for (const to of [pipe, join(inside, "link")])
      await expect(copyOut(sandbox, "file", to, never)).rejects.toMatchObject({
        code: "input.usage",
      })
    expect(lstatSync(pipe).isFIFO()).toBe(true)
  })

  it("leaves nothing half-done of a file when it is cancelled", async () => {
    const { inside } = makePlaces()
    writeFileSync(join(inside, "file"), "old")
    const cancelling = new AbortController()
    const stat = (path: string) => entry(path, { size: 1_000_000 })
    const content = (_path: string, response: ServerResponse) => {
      response.write("new", () => cancelling.abort())
    }
    const sandbox = await playFiles({ stat, list: () => listing(), content })
    await expect(copyOut(sandbox, "file", `${inside}/`, cancelling.signal)).rejects.toBeDefined()
    expect(readFileSync(join(inside, "file"), "utf8")).toBe("old")
    expect(readdirSync(inside)).toEqual(["file"])
  })
})
