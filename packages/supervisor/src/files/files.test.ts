import { execFileSync } from "node:child_process"
import {
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { FileEntry, FileList, WrittenFiles } from "@berth/protocol/files"
import { isWholeRun, sized } from "@berth/testing/sampled"
import { nest, spread } from "@berth/testing/trees"
import { describe, expect, it, onTestFinished } from "vitest"
import { DOWNLOAD, RELAYED } from "./feature.ts"
import { SOMEONE, serveFiles } from "./testing/files.ts"
import { fileRoutes } from "./work/routes.ts"

describe("reading and writing", () => {
  it("gives back the written bytes, from a file of the user's own", async () => {
    const { call, workspace } = await serveFiles()
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251))
    const query = { path: "a/b/file.bin", parents: true, mode: 0o750 }
    const written = await call("PUT", "/files/content", query, { bytes })
    expect(written.status).toBe(200)
    const entry = FileEntry.parse(written.body)
    expect(entry).toMatchObject({ path: "a/b/file.bin", kind: "file", size: 300_000, mode: 0o750 })
    if (SOMEONE) expect(statSync(join(workspace, "a/b/file.bin"))).toMatchObject(SOMEONE)
    const read = await call("GET", "/files/content", { path: "a/b/file.bin" })
    expect(read.headers.etag).toBe(entry.etag)
    expect(read.bytes.equals(bytes)).toBe(true)
    expect(readdirSync(join(workspace, "a/b"))).toEqual(["file.bin"])
  })

  it("keeps the mode of a file that it replaces, and writes through a link", async () => {
    const { call, workspace } = await serveFiles()
    await call(
      "PUT",
      "/files/content",
      { path: "script", mode: 0o755 },
      { bytes: Buffer.from("1") },
    )
    symlinkSync("script", join(workspace, "link"))
    await call("PUT", "/files/content", { path: "link" }, { bytes: Buffer.from("2") })
    expect(lstatSync(join(workspace, "link")).isSymbolicLink()).toBe(true)
    expect(readFileSync(join(workspace, "script"), "utf8")).toBe("2")
    expect(statSync(join(workspace, "script")).mode & 0o777).toBe(0o755)
  })

  it("answers ranges", async () => {
    const { call, workspace } = await serveFiles()
    writeFileSync(join(workspace, "digits"), "0123456789")
    for (const [range, status, text, place] of [
      ["bytes=0-3", 206, "0123", "bytes 0-3/10"],
      ["bytes=7-", 206, "789", "bytes 7-9/10"],
      ["bytes=-4", 206, "6789", "bytes 6-9/10"],
      ["bytes=5-500", 206, "56789", "bytes 5-9/10"],
      ["bytes=10-", 416, undefined, "bytes */10"],
      ["bytes=-0", 416, undefined, "bytes */10"],
      ["bytes=4-2", 200, "0123456789", undefined],
      ["lines=1-2", 200, "0123456789", undefined],
    ] as const) {
      const read = await call("GET", "/files/content", { path: "digits" }, { headers: { range } })
      expect([range, read.status]).toEqual([range, status])
      expect(read.headers["content-range"]).toBe(place)
      if (text === undefined) expect(read.body.code).toBe("files.range_unsatisfiable")
      else expect(read.bytes.toString()).toBe(text)
    }
  })

  it("reads empty files, and files of the kernel that claim to be empty", async () => {
    const { call, workspace } = await serveFiles()
    writeFileSync(join(workspace, "empty"), "")
    expect((await call("GET", "/files/content", { path: "empty" })).bytes.length).toBe(0)
    const { bytes } = await call("GET", "/files/content", { path: "/proc/self/status" })
    expect(bytes.toString()).toContain(`Uid:\t${SOMEONE?.uid ?? process.getuid?.()}`)
  })

  it("refuses pipes, devices and directories, and does not wait for a pipe", async () => {
    const { call, workspace } = await serveFiles()
    execFileSync("mkfifo", ["-m", "666", join(workspace, "pipe")])
    const wrong = { status: 409, body: { code: "files.wrong_kind" } }
    for (const path of ["pipe", "/dev/zero", "."]) {
      expect(await call("GET", "/files/content", { path })).toMatchObject(wrong)
      expect(await call("PUT", "/files/content", { path })).toMatchObject(wrong)
    }
    expect(await call("GET", "/files/archive", { path: "pipe" })).toMatchObject(wrong)
    expect(await call("GET", "/files/content", { path: "pipe/x" })).toMatchObject(wrong)
  })

  it("writes several files, and reports an error for each that cannot be written", async () => {
    const { call, workspace } = await serveFiles()
    mkdirSync(join(workspace, "directory"))
    const files = [
      { path: "one", content: "é", mode: 0o600 },
      { path: "directory", content: "x" },
      { path: "two", content: { base64: "/w==" } },
    ]
    const { body } = await call("POST", "/files/write", {}, { body: { files } })
    const written = WrittenFiles.parse(body).files
    expect(written.map(({ error }) => error?.code)).toEqual([
      undefined,
      "files.wrong_kind",
      undefined,
    ])
    expect(readFileSync(join(workspace, "one"), "utf8")).toBe("é")
    expect(readFileSync(join(workspace, "two"))).toEqual(Buffer.from([0xff]))
    expect(readdirSync(workspace).toSorted()).toEqual(["directory", "one", "two"])
  })
})

describe("names", () => {
  const NAMES = {
    newline: Buffer.from("a\nb"),
    "invalid UTF-8": Buffer.from([0x66, 0xff, 0xfe]),
    "255 bytes": Buffer.alloc(255, "n"),
    percent: Buffer.from("100%25&x=1+2"),
  }
  it("are of any bytes", async () => {
    const { call, workspace } = await serveFiles()
    for (const name of Object.values(NAMES)) {
      const text = name.toString()
      const path = Buffer.from(text).equals(name) ? text : { base64: name.toString("base64") }
      expect(await call("PUT", "/files/content", { path }, { bytes: name })).toMatchObject({
        status: 200,
        body: { path },
      })
      expect(readdirSync(workspace, { encoding: "buffer" })).toEqual([name])
      const { body } = await call("GET", "/files/list", { path: "." })
      expect(FileList.parse(body).entries.map((entry) => entry.path)).toEqual([path])
      expect((await call("GET", "/files/content", { path })).bytes).toEqual(name)
      const move = (from: unknown, to: unknown) =>
        call("POST", "/files/move", {}, { body: { from, to } })
      expect((await move(path, "moved")).status).toBe(200)
      expect((await move("moved", path)).status).toBe(200)
      expect((await call("DELETE", "/files", { path })).status).toBe(204)
      expect(readdirSync(workspace)).toEqual([])
    }
  })

  it("that no file can have are refused", async () => {
    const { call } = await serveFiles()
    const paths = ["", "a\0b", "x".repeat(5000), "n".repeat(256), { base64: "no" }, undefined]
    for (const path of paths)
      expect(await call("GET", "/files/stat", { path })).toMatchObject({
        status: 400,
        body: { code: "input.invalid" },
      })
    for (const query of [{ depth: 0 }, { depth: 65 }, { limit: -1 }, { other: 1 }])
      expect((await call("GET", "/files/list", { path: ".", ...query })).status).toBe(400)
  })
})

describe("a move to another file system", () => {
  const elsewhere = () => {
    const directory = mkdtempSync("/dev/shm/berth-files-move-")
    onTestFinished(() => rmSync(directory, { recursive: true }))
    if (SOMEONE) chownSync(directory, SOMEONE.uid, SOMEONE.gid)
    return directory
  }

  it("takes files, folders and links along, unchanged, and leaves nothing behind", async () => {
    const { call, workspace } = await serveFiles()
    const there = elsewhere()
    expect(statSync(there).dev).not.toBe(statSync(workspace).dev)
    await call("PUT", "/files/content", { path: "f/deep/run", parents: true, mode: 0o750 })
    writeFileSync(Buffer.from(`${workspace}/f/b\xffd\n`, "latin1"), "odd")
    symlinkSync("deep/run", join(workspace, "f/link"))
    utimesSync(join(workspace, "f/deep/run"), 1_000, 2_000)
    const move = (from: string, to: string, replace?: boolean) =>
      call("POST", "/files/move", {}, { body: { from, to, ...(replace && { replace }) } })
    expect(await move("f", `${there}/g`)).toMatchObject({
      status: 200,
      body: { kind: "directory" },
    })
    expect(readdirSync(workspace)).toEqual([])
    expect(readdirSync(there)).toEqual(["g"])
    const moved = statSync(`${there}/g/deep/run`)
    expect([moved.mode & 0o777, moved.mtimeMs]).toEqual([0o750, 2_000_000])
    if (SOMEONE) expect(moved).toMatchObject(SOMEONE)
    expect(readFileSync(Buffer.from(`${there}/g/b\xffd\n`, "latin1"), "utf8")).toBe("odd")
    expect(lstatSync(`${there}/g/link`).isSymbolicLink()).toBe(true)

    await call("PUT", "/files/content", { path: "one" }, { bytes: Buffer.from("1") })
    await call("PUT", "/files/content", { path: `${there}/two` }, { bytes: Buffer.from("2") })
    expect((await move("one", `${there}/two`)).body.code).toBe("files.exists")
    expect((await move("one", `${there}/g`)).body.code).toBe("files.exists")
    expect(readFileSync(`${there}/two`, "utf8")).toBe("2")
    expect((await move("one", `${there}/two`, true)).status).toBe(200)
    expect(readFileSync(`${there}/two`, "utf8")).toBe("1")
    expect([readdirSync(workspace), readdirSync(there).toSorted()]).toEqual([[], ["g", "two"]])
  })

  it("of a folder that holds a pipe fails, and leaves all as it was", async () => {
    const { call, workspace } = await serveFiles()
    const there = elsewhere()
    await call("PUT", "/files/content", { path: "f/a", parents: true })
    execFileSync("mkfifo", [join(workspace, "f/pipe")])
    const body = { from: "f", to: `${there}/f` }
    expect((await call("POST", "/files/move", {}, { body })).body.code).toBe("files.wrong_kind")
    expect(readdirSync(join(workspace, "f")).toSorted()).toEqual(["a", "pipe"])
    expect(readdirSync(there)).toEqual([])
  })
})

describe("folders", () => {
  it("are listed to a depth, with links and their targets, and cut where there is too much", async () => {
    const { call, workspace } = await serveFiles()
    mkdirSync(join(workspace, "a/b/c"), { recursive: true })
    writeFileSync(join(workspace, "a/b/c/deep"), "")
    symlinkSync("a/b", join(workspace, "link"))
    const list = async (query: { depth?: number; limit?: number }) => {
      const { body } = await call("GET", "/files/list", { path: workspace, ...query })
      const { entries, cut } = FileList.parse(body)
      return { paths: entries.map(({ path }) => path), cut, entries }
    }
    expect(await list({})).toMatchObject({ paths: ["a", "link"], cut: false })
    expect((await list({})).entries[1]).toMatchObject({ kind: "link", target: "a/b" })
    const all = ["a", "a/b", "a/b/c", "a/b/c/deep", "link"]
    expect(await list({ depth: 9 })).toMatchObject({ paths: all, cut: false })
    expect(await list({ depth: 9, limit: 3 })).toMatchObject({
      paths: ["a", "a/b", "link"],
      cut: true,
    })
    expect(await list({ depth: 9, limit: 5 })).toMatchObject({ paths: all, cut: false })
  })

  it("are made, moved and removed, and nothing is overwritten unasked", async () => {
    const { call, workspace } = await serveFiles()
    const post = (path: string, body: unknown) => call("POST", `/files/${path}`, {}, { body })
    expect((await post("mkdir", { path: "x/y" })).body.code).toBe("files.not_found")
    const made = await post("mkdir", { path: "x/y", parents: true, mode: 0o777 })
    expect(made).toMatchObject({ status: 201, body: { kind: "directory", mode: 0o777 } })
    expect((await post("mkdir", { path: "x/y" })).body.code).toBe("files.exists")
    for (const name of ["one", "two"]) writeFileSync(join(workspace, name), name)
    expect((await post("move", { from: "one", to: "two" })).body.code).toBe("files.exists")
    expect((await post("move", { from: "x", to: "two" })).body.code).toBe("files.exists")
    expect((await post("move", { from: "one", to: "two", replace: true })).status).toBe(200)
    expect(readFileSync(join(workspace, "two"), "utf8")).toBe("one")
    expect((await post("move", { from: "x", to: "z" })).status).toBe(200)
    expect((await post("move", { from: "gone", to: "z2" })).body).toMatchObject({
      code: "files.not_found",
      message: "cannot move gone: no such file or directory",
    })
    expect((await call("DELETE", "/files", { path: "z" })).body.code).toBe("files.exists")
    expect((await call("DELETE", "/files", { path: "z", recursive: true })).status).toBe(204)
    expect((await call("DELETE", "/files", { path: workspace, recursive: true })).status).toBe(400)
    expect(readdirSync(workspace)).toEqual(["two"])
  })
})

it(
  "removes folders that lie deeper than a path can be long, and many files beside them",
  async () => {
    const { call, workspace } = await serveFiles()
    mkdirSync(join(workspace, "big/wide"), { recursive: true })
    mkdirSync(join(workspace, "big/other"))
    await nest(
      join(workspace, "big"),
      sized("depth of folders that are removed", { few: 100, all: 100_000 }),
      255,
    )
    await spread(
      join(workspace, "big/wide"),
      sized("files that are removed", { few: 500, all: 1_000_000 }),
      100,
      "file",
    )
    await spread(join(workspace, "big/other"), 200, 10, "directory")
    if (SOMEONE !== undefined)
      execFileSync("chown", ["-R", `${SOMEONE.uid}:${SOMEONE.gid}`, join(workspace, "big")])
    const remove = () => call("DELETE", "/files", { path: "big", recursive: true })
    // Each call goes on where the call before it ran out of time.
    let removed = await remove()
    while (removed.status === 504) removed = await remove()
    expect(removed.status).toBe(204)
    expect(readdirSync(workspace)).toEqual([])
  },
  isWholeRun ? 1_800_000 : 60_000,
)

it("the supervisor relays every route that the worker answers", () => {
  const routes = fileRoutes({ workspace: "/", search: "rg", maker: { sandbox: "", worker: "" } })
  expect([DOWNLOAD, ...RELAYED]).toEqual(routes.map(({ method, path }) => ({ method, path })))
})
