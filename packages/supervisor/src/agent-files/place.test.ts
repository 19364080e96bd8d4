import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { FILES, Home, NO_LINKS } from "./testing/home.ts"

let home: Home
beforeEach(() => {
  home = new Home()
})
afterEach(() => home.close())

const BOTH = FILES.map(({ to }) => to)
const LINKED = {
  ".config": "directory",
  ".config/x": "directory",
  ".config/x/node_modules": "-> /toolbox/agents/x/node_modules",
  ".config/x/package.json": "-> /toolbox/agents/x/package.json",
}
const copied = (version: string) => ({
  ".config": "directory",
  ".config/x": "directory",
  ".config/x/.node_modules.berth-copy": expect.stringMatching(/^[0-9a-f]{64}\n$/),
  ".config/x/.package.json.berth-copy": expect.stringMatching(/^[0-9a-f]{64}\n$/),
  ".config/x/node_modules": "directory",
  ".config/x/node_modules/plugin": "directory",
  ".config/x/node_modules/plugin/lib": "directory",
  ".config/x/node_modules/plugin/lib/index.js": `// ${version}`,
  ".config/x/node_modules/plugin/run": "#!/bin/sh\n",
  ".config/x/package.json": `{"version":"${version}"}`,
})

describe("agent files", () => {
  it("[R2.5] are links into the toolbox, and the user owns the links and their directories", async () => {
    expect(await home.place()).toEqual({
      linked: BOTH,
      copied: [],
      present: [],
      replaced: [],
      kept: [],
      cleaned: [],
      linkingFailed: undefined,
    })
    expect(home.listing()).toEqual(LINKED)
  })

  it("[R2.8] are left alone and reported as present where they are in place", async () => {
    await home.place()
    const path = home.programs({ mkdir: "exit 1", ln: "exit 1", cp: "exit 1", mv: "exit 1" })
    expect(await home.place({ path })).toMatchObject({ linked: [], copied: [], present: BOTH })
    expect(home.listing()).toEqual(LINKED)
  })

  it.each([
    ["a directory that is missing", "node_modules", () => {}, "it is missing"],
    [
      "a directory of nothing but directories",
      "node_modules",
      (path: string) => mkdirSync(join(path, "a/b"), { recursive: true }),
      "it is a directory without anything in it",
    ],
    [
      "a tree of empty files",
      "node_modules",
      (path: string) => {
        mkdirSync(path)
        writeFileSync(join(path, "index.js"), "")
      },
      "it is a directory without anything in it",
    ],
    [
      "an empty file",
      "package.json",
      (path: string) => writeFileSync(path, ""),
      "it is an empty file",
    ],
    [
      "a link to nothing",
      "package.json",
      (path: string) => symlinkSync("nothing", path),
      "it is missing",
    ],
  ])(
    "[R2.6] are refused where the toolbox has %s, and the home stays empty",
    async (_, name, make, lack) => {
      const path = join(home.roots.toolbox, "agents/x", name)
      rmSync(path, { recursive: true })
      make(path)
      await expect(home.place()).rejects.toMatchObject({
        code: "agent_files.incomplete",
        message: `the toolbox has no agents/x/${name}: ${lack}`,
        details: { path, lack },
      })
      expect(home.listing()).toEqual({})
    },
  )
})

describe("where no links can be made", () => {
  it("[R2.7] agent files are copied, and the user may write the copies", async () => {
    expect(await home.place(NO_LINKS)).toMatchObject({
      linked: [],
      copied: BOTH,
      linkingFailed: "EPERM: operation not permitted, symlink",
    })
    expect(home.listing()).toEqual(copied("1.0.0"))
  })

  it("[R2.7] links made before the failure give way to copies", async () => {
    const makeLink = (target: string, path: string) => {
      if (path.endsWith("package.json")) NO_LINKS.makeLink()
      symlinkSync(target, path)
    }
    expect(await home.place({ makeLink })).toMatchObject({
      linked: [],
      copied: BOTH,
    })
    expect(home.listing()).toEqual(copied("1.0.0"))
  })

  it("[R2.7] and no copies either, the boot fails with the reason and leaves only empty directories", async () => {
    const half = `case $* in *package.json*) echo 'No space left on device' >&2; exit 1;; esac; exec /bin/cp "$@"`
    const path = home.programs({ cp: half })
    await expect(home.place({ path, ...NO_LINKS })).rejects.toMatchObject({
      code: "agent_files.failed",
      message: "copying agent files failed: No space left on device",
    })
    expect(home.listing()).toEqual({ ".config": "directory", ".config/x": "directory" })
  })

  it("copies of this toolbox are recognized and not made again", async () => {
    await home.place(NO_LINKS)
    const path = home.programs({ cp: "exit 1" })
    expect(await home.place({ path, ...NO_LINKS })).toMatchObject({
      copied: [],
      present: BOTH,
      kept: [],
    })
  })

  it("copies of an earlier toolbox are replaced", async () => {
    await home.place(NO_LINKS)
    home.fill("2.0.0")
    expect(await home.place(NO_LINKS)).toMatchObject({ copied: BOTH, replaced: BOTH, kept: [] })
    expect(home.listing()).toEqual(copied("2.0.0"))
  })

  it("copies that were somewhat larger in an earlier toolbox are replaced, too", async () => {
    home.fill("1".repeat(10_000))
    await home.place(NO_LINKS)
    home.fill("2.0.0")
    expect(await home.place(NO_LINKS)).toMatchObject({ copied: BOTH, replaced: BOTH, kept: [] })
  })

  it("copies that the user changed are the user's", async () => {
    await home.place(NO_LINKS)
    home.own(".config/x/node_modules/mine/index.js", "mine")
    home.own(".config/x/package.json", "mine")
    home.fill("2.0.0")
    const before = home.listing()
    expect(await home.place(NO_LINKS)).toMatchObject({
      copied: [],
      kept: BOTH.map((to) => ({ to, reason: "it is the user's own" })),
    })
    expect(home.listing()).toEqual(before)
  })

  it("a stale link is restored when the copy for its place fails", async () => {
    mkdirSync(home.path(".config/x"), { recursive: true })
    symlinkSync(join(home.roots.toolbox, "gone"), home.path(".config/x/node_modules"))
    home.giveAway()
    const path = home.programs({ cp: "exit 1" })
    await expect(home.place({ path, ...NO_LINKS })).rejects.toThrow("it ended with status 1")
    expect(home.listing()[".config/x/node_modules"]).toMatch("-> /toolbox/gone")
  })
})

describe("the entry at the place of an agent file", () => {
  it.each([
    ["a link to another path of the toolbox", "toolbox/agents/old/node_modules"],
    ["a link to nothing any more", "toolbox/gone"],
  ])("[R2.7] is put right when it is %s", async (_, target) => {
    mkdirSync(home.path(".config/x"), { recursive: true })
    symlinkSync(join(home.directory, target), home.path(".config/x/node_modules"))
    home.giveAway()
    expect(await home.place()).toMatchObject({ linked: BOTH, replaced: [BOTH[0]] })
    expect(home.listing()).toEqual(LINKED)
  })

  it("[R2.7] is rid of the half-made files of a boot that was cut short", async () => {
    const half = ".config/x/.node_modules.berth-aside/plugin/half.js"
    home.own(half, "ha")
    home.own(".config/x/.package.json.berth-old", "old")
    home.own(".config/x/.package.json.berth-copy", "not a fingerpr")
    expect(await home.place()).toMatchObject({ linked: BOTH, cleaned: BOTH, kept: [] })
    expect(home.listing()).toEqual(LINKED)
    home.own(half, "ha")
    expect(await home.place()).toMatchObject({ linked: [], present: BOTH, cleaned: [BOTH[0]] })
    expect(home.listing()).toEqual(LINKED)
  })

  it.each<[string, (place: string) => void]>([
    ["a file", (place) => writeFileSync(place, "mine")],
    ["an empty directory", (place) => mkdirSync(place)],
    ["a link to elsewhere", (place) => symlinkSync("/etc/hostname", place)],
    ["a link to nothing", (place) => symlinkSync("nowhere", place)],
    ["a link beside the toolbox", (place) => symlinkSync(`${home.roots.toolbox}-2/x`, place)],
  ])("is kept and reported when it is the user's own: %s", async (_, make) => {
    mkdirSync(home.path(".config/x"), { recursive: true })
    make(home.path(".config/x/package.json"))
    home.giveAway()
    const before = home.listing()[".config/x/package.json"]
    for (const how of [{}, NO_LINKS])
      expect(await home.place(how)).toMatchObject({
        kept: [{ to: ".config/x/package.json", reason: "it is the user's own" }],
      })
    expect(home.listing()[".config/x/package.json"]).toBe(before)
  })

  it("is not made behind a link of the home, which may lead into a repo", async () => {
    const repo = mkdtempSync(join(tmpdir(), "berth-repo-"))
    try {
      symlinkSync(repo, home.path(".config"))
      home.giveAway()
      expect(await home.place()).toMatchObject({
        linked: [],
        kept: BOTH.map((to) => ({ to, reason: `${home.path(".config")} is not a directory` })),
      })
      expect(home.listing()).toEqual({ ".config": `-> ${repo}` })
    } finally {
      rmSync(repo, { recursive: true })
    }
  })

  it.each([
    ["links", {}],
    ["copies", NO_LINKS],
  ])("is not overwritten by %s when the user makes it during the placing", async (_, how) => {
    const place = home.path(".config/x/package.json")
    const late = `[ -e ${place} ] || echo mine > ${place}`
    const path = home.programs({ cp: `/bin/cp "$@"; ${late}` })
    const makeLink = (target: string, at: string) => {
      writeFileSync(place, "mine\n")
      symlinkSync(target, at)
    }
    await expect(home.place({ path, makeLink, ...how })).rejects.toMatchObject({
      code: "agent_files.failed",
    })
    expect(home.listing()[".config/x/package.json"]).toMatch(/^mine\n/)
    expect(await home.place()).toMatchObject({ kept: [{ to: ".config/x/package.json" }] })
  })

  it("is not made behind a directory that becomes a link during the placing", async () => {
    const target = mkdtempSync(join(tmpdir(), "berth-roots-"))
    try {
      const makeLink = (to: string, at: string) => {
        rmSync(home.path(".config/x"), { recursive: true })
        symlinkSync(target, home.path(".config/x"))
        symlinkSync(to, at)
      }
      await expect(home.place({ makeLink })).rejects.toMatchObject({ code: "agent_files.failed" })
      expect(readdirSync(target)).toEqual([])
      expect(statSync(target).uid).toBe(process.getuid?.())
    } finally {
      rmSync(target, { recursive: true })
    }
  })
})
