import { execFileSync } from "node:child_process"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { TAR, writeHeader } from "@berth/protocol/tar-header"
import { nest, removeDeep } from "@berth/testing/trees"
import { describe, expect, it } from "vitest"
import { SOMEONE, serveFiles } from "./testing/files.ts"

const LONG = `${"d".repeat(200)}/${"f".repeat(255)}`

const fill = (folder: string) => {
  mkdirSync(join(folder, "d".repeat(200)), { recursive: true })
  mkdirSync(join(folder, "empty"))
  writeFileSync(join(folder, LONG), "long")
  writeFileSync(join(folder, "script"), "#!/bin/sh\n", { mode: 0o755 })
  writeFileSync(join(folder, "zeros"), Buffer.alloc(700_001, 1))
  writeFileSync(Buffer.from(`${folder}/b\xffd\n`, "latin1"), "bad")
  symlinkSync("x".repeat(150), join(folder, "link"))
}

/** Lists a folder, with names as text in which each character is a byte. */
const look = (folder: string) =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, encoding: "latin1" }).map((name) => {
      const path = Buffer.from(`${folder}/${name}`, "latin1")
      const found = statSync(path, { throwIfNoEntry: false })
      const content = found?.isFile() ? readFileSync(path).toString("base64") : undefined
      return [name, { mode: found?.mode, content }]
    }),
  )

describe("archives", () => {
  it("are refused where a path is too long", async () => {
    const { call, workspace } = await serveFiles()
    const folder = join(workspace, "deep")
    mkdirSync(folder)
    await nest(folder, 40, 255)
    try {
      expect(await call("GET", "/files/archive", { path: "deep" })).toMatchObject({
        status: 400,
        body: { code: "input.invalid", message: "cannot archive deep: name too long" },
      })
    } finally {
      await removeDeep(folder)
    }
  })

  it("carry a folder out and into another one, as tar does", async () => {
    const { call, workspace } = await serveFiles()
    fill(join(workspace, "from"))
    const { bytes, headers } = await call("GET", "/files/archive", { path: "from" })
    expect(headers["content-type"]).toBe("application/x-tar")
    const put = await call("PUT", "/files/archive", { path: "to/deep" }, { bytes })
    expect(put).toMatchObject({ status: 200, body: { entries: 7 } })
    expect(look(join(workspace, "to/deep"))).toEqual(look(join(workspace, "from")))
    expect(readlinkSync(join(workspace, "to/deep/link"))).toBe("x".repeat(150))
    if (SOMEONE) expect(statSync(join(workspace, "to/deep/script"))).toMatchObject(SOMEONE)
    mkdirSync(join(workspace, "by-tar"))
    execFileSync("tar", ["-x", "-C", join(workspace, "by-tar")], { input: bytes })
    expect(look(join(workspace, "by-tar"))).toEqual(look(join(workspace, "from")))
  })

  it.each(["gnu", "pax", "ustar"])("of tar's %s form are understood", async (form) => {
    const { call, workspace } = await serveFiles()
    fill(join(workspace, "from"))
    if (form === "ustar") execFileSync("rm", ["-r", join(workspace, "from", "d".repeat(200))])
    if (form === "ustar") execFileSync("rm", [join(workspace, "from/link")])
    const bytes = execFileSync(
      "tar",
      [`--format=${form}`, "-c", "-C", join(workspace, "from"), "."],
      {
        maxBuffer: 10_000_000,
      },
    )
    expect(await call("PUT", "/files/archive", { path: "to" }, { bytes })).toMatchObject({
      status: 200,
    })
    expect(look(join(workspace, "to"))).toEqual(look(join(workspace, "from")))
  })

  const none = { uid: 0, gid: 0, mode: 0o644, size: 0, modifiedAtMs: 0, target: Buffer.alloc(0) }
  const entry = (name: string, more: { type?: string; target?: string } = {}) =>
    writeHeader({
      ...none,
      type: more.type ?? TAR.file,
      name: Buffer.from(name),
      target: Buffer.from(more.target ?? ""),
    })
  const END = Buffer.alloc(1024)
  const damaged = Buffer.from(entry("x"))
  damaged[0] = 0x79

  it("that lead out of the folder, or are no archives, are refused", async () => {
    const { call, workspace } = await serveFiles()
    mkdirSync(join(workspace, "outside"))
    const refused = {
      dots: [entry("a/../../outside/x")],
      absolute: [entry(`${workspace}/outside/x`)],
      "through a link": [entry("l", { type: TAR.link, target: "../outside" }), entry("l/x")],
      "a directory through a link": [
        entry("l", { type: TAR.link, target: "../outside" }),
        entry("l/x/", { type: TAR.directory }),
      ],
      "a hard link": [entry("h", { type: TAR.hardLink, target: "../outside/secret" })],
      "a device": [entry("dev", { type: "3" })],
      damaged: [damaged],
      "cut short": [entry("x").subarray(0, 300)],
      "not an archive": [Buffer.alloc(1024, "text")],
    }
    for (const [why, blocks] of Object.entries(refused)) {
      const bytes = Buffer.concat([...blocks, END])
      const sent = why === "cut short" ? Buffer.concat(blocks) : bytes
      const { body } = await call("PUT", "/files/archive", { path: "in" }, { bytes: sent })
      expect([why, body.code]).toEqual([why, "files.archive_refused"])
    }
    expect(readdirSync(join(workspace, "outside"))).toEqual([])
  })

  it("replace a link of the same name, and do not write to its target", async () => {
    const { call, workspace } = await serveFiles()
    writeFileSync(join(workspace, "kept"), "kept")
    const bytes = Buffer.concat([
      entry("x", { type: TAR.link, target: "../kept" }),
      entry("x"),
      END,
    ])
    expect((await call("PUT", "/files/archive", { path: "in" }, { bytes })).status).toBe(200)
    expect(readFileSync(join(workspace, "kept"), "utf8")).toBe("kept")
    expect(existsSync(join(workspace, "in/x"))).toBe(true)
  })
})
