import { existsSync } from "node:fs"
import { readdir, readFile } from "node:fs/promises"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("..", import.meta.url))
const documents = [
  ...(await readdir(root)),
  ...(await readdir(path.join(root, "docs"))).map((name) => `docs/${name}`),
].filter((name) => name.endsWith(".md"))
const { scripts } = JSON.parse(await readFile(path.join(root, "package.json"), "utf8"))

const read = (document: string) => readFile(path.join(root, document), "utf8")
const matches = (text: string, pattern: RegExp) =>
  [...text.matchAll(pattern)].map(([, match = ""]) => match)

describe("the documents", () => {
  it("include those that the README promises", async () => {
    expect(documents).toEqual(
      expect.arrayContaining(["README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md"]),
    )
    expect(matches(await read("README.md"), /^(npm install && npm .*)$/gm)).toEqual([
      "npm install && npm run demo",
      "npm install && npm test",
    ])
  })

  it("name every command in the first row of the README's status table, and no other", async () => {
    const commands = await read("packages/cli/src/commands.ts")
    const [row = ""] = matches(await read("README.md"), /^\| command line \|([^|]*)\|/gm)
    const named = matches(row, /`(?:berth )?([a-z-]+)`/g)
    expect(named.sort()).toEqual(matches(commands, /^ {4}name: "([a-z-]+)"/gm).sort())
  })

  it.each(documents)("link only to files and headings that exist: %s", async (document) => {
    const links = matches(await read(document), /\]\((?![a-z]+:)([^)\s]+)\)/g)
    const broken: string[] = []
    for (const link of links) {
      const [file = "", anchor] = link.split("#")
      const target = file === "" ? document : path.join(path.dirname(document), file)
      const found =
        existsSync(path.join(root, target)) &&
        (anchor === undefined || anchors(await read(target)).includes(anchor))
      if (!found) broken.push(link)
    }
    expect(broken).toEqual([])
  })

  it.each(documents)("name only files of the project that exist: %s", async (document) => {
    const files = matches(
      await read(document),
      /`((?:packages|bench|e2e|scripts|docs|bin)\/[\w./*-]+)`/g,
    )
    // A name in capitals stands for a value of the reader's.
    const real = files.filter((file) => !/[A-Z]{2}|\*|000N/.test(file))
    expect(real.filter((file) => !existsSync(path.join(root, file)))).toEqual([])
  })

  it.each(documents)("call only scripts that exist: %s", async (document) => {
    const called = matches(await read(document), /npm run (?:--?\w+ )*([\w:]+)/g)
    expect(called.filter((name) => !(name in scripts))).toEqual([])
  })
})

it("no script of package.json starts npm, which would repeat its banner and its warnings", () => {
  expect(Object.values<string>(scripts).filter((script) => /\bnpm\b/.test(script))).toEqual([])
})

/** The anchors of a document's headings, as they are made from their text. */
const anchors = (text: string) =>
  matches(text, /^#+ (.*)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  )
