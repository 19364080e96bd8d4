import { globSync } from "node:fs"
import path from "node:path"
import { isFlag, missingIn } from "@berth/cli/testing/command-lines"
import { ERRORS } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { DOCUMENTS, matches, namesIn, PROJECT, ROOT, read, SOURCES } from "./documents.ts"

const { scripts } = JSON.parse(read("package.json"))
/** The documents about today. The changelog may name things that are gone. */
const OF_TODAY = DOCUMENTS.filter((document) => document !== "CHANGELOG.md")

/** Names that stand for something in a user's repo, in a data directory, inside a sandbox or in another project. */
const NOT_OURS =
  /^(?:[.~@/]|refs\/|provider\/|v2\/|modules\/|reserve\/|node_modules\/\.cache)|^(?:opencode|server|state|plan|disk-usage)\.json$|^start\.sh$|^agents\/opencode\/|\bprocess\.env$/
/** Words in capitals stand for what the reader chooses. */
const isChosen = (name: string) => /[A-Z]{2}|\*/.test(name)

describe("the documents", () => {
  it("include those that the README promises", () => {
    expect(DOCUMENTS).toEqual(
      expect.arrayContaining(["README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md"]),
    )
    expect(matches(read("README.md"), /^(npm install && npm .*)$/gm)).toEqual([
      "npm install && npm run demo",
      "npm install && npm test",
    ])
  })

  it("name every command in the first row of the README's status table, and no other", () => {
    const commands = read("packages/cli/src/commands.ts")
    const [row = ""] = matches(read("README.md"), /^\| command line \|([^|]*)\|/gm)
    const named = matches(row, /`(?:berth )?([a-z-]+)`/g)
    expect(named.sort()).toEqual(matches(commands, /^ {4}name: "([a-z-]+)"/gm).sort())
  })

  it("name every call of the API in the README", () => {
    const readme = read("README.md")
    const routes = globSync("packages/server/src/api/routes/*.ts", { cwd: ROOT })
      .filter((file) => !file.endsWith(".test.ts"))
      .flatMap((file) => matches(read(file), /"\/v1\/([^"]+)"/g))
    expect(routes.length).toBeGreaterThan(20)
    const named = new Set(
      matches(readme, /`(?:[A-Z]+ )?([^`\n]+)`/g).flatMap((text) => text.split("/")),
    )
    const parts = routes.flatMap((route) => route.split("/").filter((part) => !/^:/.test(part)))
    expect([...new Set(parts)].filter((part) => !named.has(part))).toEqual([])
  })

  it("name every kind of id in the glossary", () => {
    const prefixes = matches(SOURCES, /\bidWith\("([a-z]{2,})"\)/g)
    const made = matches(SOURCES, /\brandomId\("([a-z]{2,})"\)/g)
    const glossary = namesIn("docs/GLOSSARY.md")
    const all = [...new Set([...prefixes, ...made])]
    expect(all.length).toBeGreaterThan(8)
    expect(all.filter((prefix) => !glossary.includes(`${prefix}-`))).toEqual([])
  })

  it.each(DOCUMENTS)("link only to files and headings that exist: %s", (document) => {
    const links = matches(read(document), /\]\((?![a-z]+:)([^)\s]+)\)/g)
    const broken: string[] = []
    for (const link of links) {
      const [file = "", anchor] = link.split("#")
      const target = file === "" ? document : path.join(path.dirname(document), file)
      const found =
        PROJECT.has(target) && (anchor === undefined || anchors(read(target)).includes(anchor))
      if (!found) broken.push(link)
    }
    expect(broken).toEqual([])
  })

  it.each(OF_TODAY)("name only files and folders of the project that exist: %s", (document) => {
    const named = namesIn(document).filter(
      (name) =>
        /^[\w.@*-]+(?:\/[\w.@*-]+)+\/?$|^[\w-]+\.(?:ts|cjs|sh|json|md|yaml|grit)$/.test(name) &&
        !NOT_OURS.test(name) &&
        !isChosen(name),
    )
    expect(named.filter((name) => !isThere(name.replace(/\/$/, "")))).toEqual([])
  })

  it.each(OF_TODAY)("name only words of the code that it has: %s", (document) => {
    const words = namesIn(document).flatMap((name) => matches(name, /^([a-z]+[A-Z]\w*)(?:\(\))?$/g))
    // Examples of rules for names, one good and one bad.
    const given = words.filter((word) => word !== "dockerId" && word !== "maxLogBytes")
    expect(given.filter((word) => !new RegExp(`\\b${word}\\b`).test(SOURCES))).toEqual([])
  })

  it.each(OF_TODAY)("name only variables of Berth that it reads: %s", (document) => {
    const named = matches(read(document), /\b(BERTH_[A-Z_]+[A-Z])\b/g)
    // A variable of the configuration is spelt by its key.
    const keys = new Set(matches(read("packages/local/src/config/schema.ts"), /^ {2}(\w+): /gm))
    const isRead = (name: string) => keys.has(keyOf(name)) || SOURCES.includes(name)
    expect(named.filter((name) => !isRead(name))).toEqual([])
  })

  it.each(OF_TODAY)("name only errors and events that there are: %s", (document) => {
    const families = new Set(Object.keys(ERRORS).map((code) => code.split(".")[0]))
    const named = namesIn(document).filter(
      (name) => /^[a-z]+\.[a-z_]+$/.test(name) && families.has(name.split(".")[0]),
    )
    const isKnown = (name: string) =>
      name in ERRORS ||
      SOURCES.includes(`"${name}"`) ||
      PROJECT.has(`bench/benchmarks/${name}.ts`) ||
      /\.(?:ts|json|sh)$/.test(name) ||
      // Calls of the SDK.
      /^session\.(?:prompt|events)$/.test(name)
    expect(named.filter((name) => !isKnown(name))).toEqual([])
  })

  it.each(OF_TODAY)("name only commands and flags that there are: %s", (document) => {
    const blocks = matches(read(document), /^```sh\n(.*?)^```$/gms)
      .join("\n")
      .replaceAll(/#.*$/gm, "")
    const lines = [...blocks.split("\n"), ...namesIn(document)].flatMap((text) =>
      matches(text, /(?:^|[\s(;&])(berth [a-z-][^#|;&)]*)/g),
    )
    const wrong = lines.filter((line) => missingIn(line.trim()) !== undefined)
    const flags = namesIn(document).flatMap((name) => matches(name, /^(--[a-z-]+)/g))
    expect([...wrong, ...flags.filter((flag) => !isFlag(flag) && !OTHERS_FLAGS.has(flag))]).toEqual(
      [],
    )
  })

  it.each(DOCUMENTS)("call only scripts that exist: %s", (document) => {
    const called = matches(read(document), /npm run (?:--?\w+ )*([\w:]+)/g)
    expect(called.filter((name) => !(name in scripts))).toEqual([])
  })
})

/** Flags of Node, npm, git and scripts. */
const OTHERS_FLAGS: ReadonlySet<string> = new Set([
  ...["--build-snapshot", "--expose-gc", "--dry-run", "--silent", "--filter"],
])

it("no script of package.json starts npm, which would repeat its banner and its warnings", () => {
  expect(Object.values<string>(scripts).filter((script) => /\bnpm\b/.test(script))).toEqual([])
})

it("only the composition roots of the server, the supervisor and their clients' configuration read the environment", () => {
  const readers = globSync(
    "packages/{server,host,layers,toolbox,bridge,backends,supervisor,local,sdk,protocol}/src/**/*.ts",
    {
      cwd: ROOT,
    },
  ).filter((file) => !/\.test\.ts$|\/testing\//.test(file) && read(file).includes("process.env"))
  expect(readers.sort()).toEqual([
    "packages/local/src/config/here.ts",
    "packages/server/src/main.ts",
    "packages/supervisor/src/agents/acp/known/codex-gate.ts",
    "packages/supervisor/src/main.ts",
    "packages/supervisor/src/web-terminal/main.ts",
  ])
})

const OF_PACKAGE =
  /^(server|host|layers|toolbox|bridge|backends|supervisor|protocol|local|cli|sdk)\//

/** Whether the project has a file or folder of this name, which may leave out where that lies. */
const isThere = (name: string): boolean => {
  const whole = name.replace(OF_PACKAGE, "packages/$1/src/")
  return [...PROJECT].some((file) => [name, whole].some((end) => `/${file}`.endsWith(`/${end}`)))
}

const keyOf = (variable: string): string =>
  variable
    .replace("BERTH_", "")
    .toLowerCase()
    .replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())

/** The anchors of a document's headings, as they are made from their text. */
const anchors = (text: string) =>
  matches(text, /^#+ (.*)$/gm).map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  )
