import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { SearchLine } from "@berth/protocol/files"
import { expect, it } from "vitest"
import { serveFiles } from "./testing/files.ts"

type Query = Record<string, string | number | boolean | { base64: string }>

const searchable = async () => {
  const { call, workspace } = await serveFiles()
  mkdirSync(join(workspace, "src/.hidden"), { recursive: true })
  mkdirSync(join(workspace, ".git"))
  mkdirSync(join(workspace, "closed"), { mode: 0 })
  writeFileSync(join(workspace, ".gitignore"), "*.log\n")
  writeFileSync(join(workspace, "src/one.ts"), "first\nsecond Needle and needle\n")
  writeFileSync(join(workspace, "src/new\nline.ts"), "needle")
  writeFileSync(join(workspace, "src/.hidden/two.ts"), "needle\n")
  writeFileSync(join(workspace, "out.log"), "needle\n")
  writeFileSync(
    Buffer.concat([Buffer.from(`${workspace}/`), BAD_NAME]),
    Buffer.from("needle \xff", "latin1"),
  )
  const search = async (query: Query) => {
    const { status, body, bytes } = await call("GET", "/files/search", { path: ".", ...query })
    if (status !== 200) return { code: body.code, message: body.message }
    const lines = bytes.toString().trimEnd().split("\n")
    const parsed = lines.map((line) => SearchLine.parse(JSON.parse(line)))
    return { end: parsed.pop(), found: parsed.toSorted((a, b) => (key(a) < key(b) ? -1 : 1)) }
  }
  return { search, workspace }
}

const BAD_NAME = Buffer.from("b\xffd", "latin1")
const BAD_PATH = { base64: BAD_NAME.toString("base64") }
const key = (line: object) => JSON.stringify(line)

it("a search finds files by name and lines by content, and respects .gitignore", async () => {
  const { search } = await searchable()
  expect(await search({ name: "*.ts" })).toEqual({
    found: [
      { type: "file", path: "src/new\nline.ts" },
      { type: "file", path: "src/one.ts" },
    ],
    end: { type: "end", results: 2, cut: false },
  })
  const matches = await search({ content: "needle" })
  expect(matches.end).toEqual({ type: "end", results: 3, cut: false })
  expect(matches.found).toEqual([
    {
      type: "match",
      path: "src/new\nline.ts",
      line: 1,
      text: "needle",
      ranges: [{ start: 0, end: 6 }],
    },
    {
      type: "match",
      path: "src/one.ts",
      line: 2,
      text: "second Needle and needle",
      ranges: [{ start: 18, end: 24 }],
    },
    {
      type: "match",
      path: BAD_PATH,
      line: 1,
      text: { base64: "bmVlZGxlIP8=" },
      ranges: [{ start: 0, end: 6 }],
    },
  ])
  expect(await search({ content: "NEEDLE", name: "one.*", ignoreCase: true })).toMatchObject({
    found: [{ path: "src/one.ts", ranges: [{ start: 7 }, { start: 18 }] }],
  })
  expect(await search({ content: "needle", all: true })).toMatchObject({ end: { results: 5 } })
  expect(await search({ content: "no such thing" })).toMatchObject({
    end: { results: 0, cut: false },
  })
})

it("a search is bounded, and refuses a wrong query with the reason", async () => {
  const { search, workspace } = await searchable()
  writeFileSync(join(workspace, "many"), "needle\n".repeat(50_000))
  writeFileSync(join(workspace, "long"), `needle${"é".repeat(4_000)}`)
  writeFileSync(join(workspace, "longer"), `needle${"x".repeat(3_000_000)}`)
  const many = await search({ content: "needle", name: "many", limit: 10 })
  expect(many).toMatchObject({ end: { results: 10, cut: true } })
  const long = await search({ content: "needle", name: "long" })
  expect(Buffer.byteLength(String(Object(long.found?.[0]).text))).toBe(2_048)
  expect(await search({ content: "needle", name: "longer" })).toMatchObject({
    found: [],
    end: { results: 0, cut: true },
  })
  expect(await search({ content: "(" })).toMatchObject({
    code: "input.invalid",
    message: expect.stringContaining("unclosed group"),
  })
  expect(await search({})).toMatchObject({ code: "input.invalid" })
  expect(await search({ content: "a\0b" })).toMatchObject({ code: "input.invalid" })
  expect(await search({ name: "a\0b" })).toMatchObject({ code: "input.invalid" })
  expect(await search({ name: "*", path: "gone" })).toMatchObject({ code: "files.not_found" })
  expect(await search({ name: "*", path: "many" })).toMatchObject({ code: "files.wrong_kind" })
  expect(await search({ name: "--pre=sh", content: "--pre=sh" })).toMatchObject({
    end: { results: 0 },
  })
})
