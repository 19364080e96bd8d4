import { execFileSync } from "node:child_process"
import {
  appendFileSync,
  chmodSync,
  cpSync,
  createWriteStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { pipeline } from "node:stream/promises"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { sendBundle } from "./bundle.ts"
import { openHostRepo } from "./host-repo.ts"
import { openSubmodule } from "./submodule.ts"
import { networkUrl } from "./submodule-url.ts"
import { commit, git, temporaryDirectory } from "./testing/host-repos.ts"

const never = new AbortController().signal

/** Runs git as a person does who clones from paths. */
const person = (cwd: string, ...args: string[]) =>
  git(cwd, "-c", "protocol.file.allow=always", ...args)

const addSubmodule = (repo: string, url: string, path: string, ...options: string[]): string => {
  person(repo, "submodule", "--quiet", "add", ...options, url, path)
  return commit(repo, `with ${path}`)
}

let nested: string
let outside: { readonly path: string; readonly head: string }
const made = mkdtempSync(join(tmpdir(), "berth-submodules-"))

beforeAll(() => {
  nested = join(made, "nested")
  for (const name of ["inner", "a", "app"]) {
    const path = join(nested, name)
    git("/", "init", "--quiet", "--template=", "-b", "main", path)
    writeFileSync(join(path, "name.txt"), name)
    git(path, "add", "name.txt")
    commit(path, name)
  }
  addSubmodule(join(nested, "a"), "../inner", "inner")
  addSubmodule(join(nested, "app"), "../a", "libs/a")
  person(join(nested, "app"), "submodule", "--quiet", "update", "--init", "--recursive")
  const path = join(made, "private")
  git("/", "init", "--quiet", "--template=", "--bare", "-b", "main", path)
  const tree = git(path, "mktree")
  outside = { path, head: git(path, "commit-tree", "-m", "private", tree) }
})
afterAll(() => rmSync(made, { recursive: true, force: true }))

/** Makes a repo with a submodule `libs/a`, in which lies `inner`; all of them are checked out. */
const makeNested = () => {
  const root = temporaryDirectory()
  cpSync(nested, root, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true })
  const path = join(root, "app")
  return { root, path, head: git(path, "rev-parse", "HEAD") }
}

const send = async (path: string, of: string, ...paths: string[]) => {
  const file = join(temporaryDirectory(), "bundle")
  const sent = await sendBundle(
    { path, ref: undefined, have: [], submodule: { of, paths } },
    { send: (bundle) => pipeline(bundle, createWriteStream(file)), signal: never },
  )
  const text = (name: string) => {
    const clone = join(temporaryDirectory(), "clone")
    git("/", "clone", "--quiet", file, clone)
    return git(clone, "show", `HEAD:${name}`)
  }
  return { ...sent, file, text }
}

interface Entry {
  readonly name: string
  readonly url?: string
  readonly id?: string
}

/** Commits entries for the paths `evil0`, `evil1` and so on, as a hostile repo has them: git itself would make none of them. */
const record = (path: string, entries: readonly Entry[]): string => {
  const words = entries.map(({ name, url = "../x" }, place) =>
    [
      `[submodule ${JSON.stringify(name)}]`,
      `path = evil${place}`,
      `url = ${JSON.stringify(url)}\n`,
    ].join("\n"),
  )
  writeFileSync(join(path, ".gitmodules"), words.join(""))
  git(path, "add", ".gitmodules")
  const lines = entries.map(({ id = outside.head }, place) => `160000 ${id}\tevil${place}\n`)
  execFileSync("git", ["update-index", "--index-info"], { cwd: path, input: lines.join("") })
  return commit(path, "evil")
}

/** Makes a signal that aborts when git is about to be called for that time. */
const abortedAtCall = (call: number): AbortSignal => {
  const aborting = new AbortController()
  const { signal } = aborting
  let calls = 0
  signal.throwIfAborted = () => {
    calls += 1
    if (calls === call) aborting.abort()
    AbortSignal.prototype.throwIfAborted.call(signal)
  }
  return signal
}

/** The directories below this one that this process has open. */
const openBelow = (path: string): string[] =>
  readdirSync("/proc/self/fd").flatMap((name) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${name}`)
      return target.startsWith(path) ? [target] : []
    } catch {
      return []
    }
  })

const filesOf = (path: string): string =>
  execFileSync("find", [path, "-type", "f", "-printf", "%P %T@ %s\n"], { encoding: "utf8" })

describe("a submodule of a repo on the host", () => {
  it("is sent at the recorded commit, as is the one inside of it, and nothing is written into the repo", async () => {
    const { path, head } = makeNested()
    const before = filesOf(path)
    const outer = await send(path, head, "libs/a")
    expect(outer).toMatchObject({ isBundled: true, url: undefined })
    expect(outer.commit).toBe(git(path, "rev-parse", "HEAD:libs/a"))
    expect(outer.text("name.txt")).toBe("a")
    const inner = await send(path, head, "libs/a", "inner")
    expect(inner.text("name.txt")).toBe("inner")
    expect(filesOf(path)).toBe(before)
    // The working tree does not matter: a person may have removed it.
    rmSync(join(path, "libs"), { recursive: true })
    expect((await send(path, head, "libs/a", "inner")).text("name.txt")).toBe("inner")
  })

  it("is sent for an earlier commit of the ref, and refused for one that the ref does not hold", async () => {
    const { path, head } = makeNested()
    const recorded = git(path, "rev-parse", "HEAD:libs/a")
    commit(path, "later")
    expect((await send(path, head, "libs/a")).commit).toBe(recorded)
    git(path, "checkout", "--quiet", "-b", "side")
    const other = commit(path, "of another branch")
    git(path, "checkout", "--quiet", "main")
    const tree = git(path, "rev-parse", `${other}^{tree}`)
    const blob = git(path, "rev-parse", `${other}:name.txt`)
    for (const of of [other, tree, blob, "0".repeat(40)])
      await expect(send(path, of, "libs/a")).rejects.toMatchObject({
        code: "repo.not_of_workspace",
      })
  })

  it("leaves none of its directories open, at whichever call of git it is cut short", async () => {
    const { root, path, head } = makeNested()
    const tip = commit(path, "later")
    const repo = await openHostRepo(path, never)
    onTestFinished(() => repo.close())
    const before = openBelow(root)
    const wanted = { of: head, paths: ["libs/a", "inner"] }
    let isOver = false
    let calls = 0
    while (!isOver) {
      calls += 1
      const opened = await openSubmodule(repo, tip, wanted, abortedAtCall(calls)).catch(() => {})
      if (opened?.found.kind === "repo") opened.found.repo.close()
      expect(openBelow(root), `cut short at call ${calls}`).toEqual(before)
      isOver = opened !== undefined
    }
    expect(calls).toBeGreaterThan(10)
  })

  it("is sent for a linked working tree from the repo of that tree", async () => {
    const { path, head } = makeNested()
    const linked = join(temporaryDirectory(), "linked")
    git(path, "worktree", "add", "--quiet", linked)
    expect((await send(linked, head, "libs/a")).text("name.txt")).toBe("a")
  })

  it("is sent with the commit at which its history is cut where the host has it shallow", async () => {
    const { path } = makeNested()
    const a = join(dirname(path), "a")
    const head = addSubmodule(path, `file://${a}`, "shallow", "--depth=1")
    const sent = await send(path, head, "shallow")
    expect(sent.shallow).toEqual([git(a, "rev-parse", "HEAD")])
  })

  it("is absent with the reason and its address where the host does not have it", async () => {
    const { path } = makeNested()
    git(path, "remote", "add", "origin", "https://me:token@git.example.test/team/app.git")
    const head = git(path, "rev-parse", "HEAD")
    rmSync(join(path, ".git/modules"), { recursive: true })
    expect(await send(path, head, "libs/a")).toMatchObject({
      isBundled: false,
      url: "https://git.example.test/team/a",
      absent: "it is not checked out in the repo on the host",
    })
  })

  it("is absent where the host has it without the recorded commit", async () => {
    const { path } = makeNested()
    const id = "1".repeat(40)
    git(path, "update-index", "--cacheinfo", `160000,${id},libs/a`)
    expect(await send(path, commit(path, "bumped"), "libs/a")).toMatchObject({
      commit: id,
      absent: expect.stringContaining("without its commit 111111111111"),
    })
  })

  it("is refused where the commit has no submodule, or only a file", async () => {
    const { path, head } = makeNested()
    for (const paths of [["libs"], ["name.txt"], ["libs/a/inner"], ["libs/a", "name.txt"], ["*"]])
      await expect(send(path, head, ...paths)).rejects.toMatchObject({
        code: "repo.not_of_workspace",
      })
  })
})

describe("a hostile .gitmodules", () => {
  it("reads nothing outside of the modules by a name that leads out of them", async () => {
    const { path } = makeNested()
    const up = `${"../".repeat(20)}${outside.path.slice(1)}`
    const names = [up, `a/${up}`, outside.path, `${outside.path}/`, "..", ".", "a/./b", "a//b"]
    const head = record(
      path,
      names.map((name) => ({ name })),
    )
    for (const [place, name] of names.entries()) {
      const sent = await send(path, head, `evil${place}`)
      expect(sent, name).toMatchObject({ absent: "git takes no submodule of that name" })
      expect(existsSync(sent.file)).toBe(false)
    }
  })

  it("makes the host fetch nothing and run nothing by its URLs, and no address of them is told", async () => {
    const { root, path } = makeNested()
    const ran = join(root, "ran")
    const urls = [
      ...["../../../../etc", "./../..//etc", "/etc", "file:///etc", outside.path],
      ...[`ext::sh -c touch% ${ran}`, `--upload-pack=touch ${ran}`],
    ]
    const head = record(
      path,
      urls.map((url, place) => ({ name: `evil${place}`, url })),
    )
    for (const [place, url] of urls.entries()) {
      const sent = await send(path, head, `evil${place}`)
      expect(sent, url).toMatchObject({ isBundled: false, url: undefined })
    }
    expect(existsSync(ran)).toBe(false)
  })

  it("reads no file by an include", async () => {
    const { path } = makeNested()
    const included = join(temporaryDirectory(), "gitmodules")
    writeFileSync(included, '[submodule "libs/a"]\n\tpath = evil0\n\turl = https://h/x\n')
    record(path, [{ name: "other" }])
    writeFileSync(join(path, ".gitmodules"), `[include]\n\tpath = ${included}\n`)
    git(path, "add", ".gitmodules")
    await expect(send(path, commit(path, "include"), "evil0")).rejects.toMatchObject({
      code: "repo.not_of_workspace",
    })
  })
})

describe("a directory of modules", () => {
  it("is not followed where it, a module or a part of a module's name is a link", async () => {
    const { path } = makeNested()
    const modules = join(path, ".git/modules")
    symlinkSync(outside.path, join(modules, "linked"))
    symlinkSync(made, join(modules, "folder"))
    const names = ["linked", "folder/private", "private"]
    const head = record(
      path,
      names.map((name) => ({ name })),
    )
    const absent = "it is not checked out in the repo on the host"
    for (const place of [0, 1])
      expect(await send(path, head, `evil${place}`)).toMatchObject({ isBundled: false, absent })
    rmSync(modules, { recursive: true })
    symlinkSync(made, modules)
    expect(await send(path, head, "evil2")).toMatchObject({ isBundled: false, absent })
  })

  it("is not read where the objects of a module lie elsewhere", async () => {
    const { path } = makeNested()
    const objects = join(path, ".git/modules/libs/a/objects")
    const head = record(path, [{ name: "libs/a" }])
    for (const lay of [
      () => symlinkSync(join(outside.path, "objects"), objects),
      () => writeFileSync(join(dirname(objects), "commondir"), outside.path),
    ]) {
      rmSync(objects, { recursive: true, force: true })
      lay()
      expect(await send(path, head, "evil0")).toMatchObject({
        isBundled: false,
        absent: "git cannot read it in the repo on the host",
      })
    }
  })

  it("runs no program that a module's settings name", async () => {
    const { path, head } = makeNested()
    const ran = join(temporaryDirectory(), "ran")
    appendFileSync(
      join(path, ".git/modules/libs/a/config"),
      `[core]\n\tfsmonitor = touch ${ran}\n\tworktree = /\n[uploadpack]\n\tpackObjectsHook = touch ${ran};\n`,
    )
    expect((await send(path, head, "libs/a")).isBundled).toBe(true)
    expect(existsSync(ran)).toBe(false)
  })

  requires("root").it(
    "is read as the repo's owner, and not where it is another user's",
    async () => {
      const { root, path, head } = makeNested()
      chmodSync(root, 0o755)
      execFileSync("chown", ["-R", "12345:12345", path])
      expect((await send(path, head, "libs/a")).isBundled).toBe(true)
      const module = join(path, ".git/modules/libs/a")
      execFileSync("chown", ["-R", "23456:23456", module])
      expect(await send(path, head, "libs/a")).toMatchObject({ isBundled: false })
      // Root's own repo leads to nobody else's either.
      execFileSync("chown", ["-R", "0:0", path])
      expect((await send(path, head, "libs/a")).isBundled).toBe(true)
      execFileSync("chown", ["-R", "23456:23456", module])
      expect(await send(path, head, "libs/a")).toMatchObject({ isBundled: false })
    },
  )
})

it.each<[string, string | undefined, string | undefined]>([
  ["https://h.test/a/b.git", undefined, "https://h.test/a/b.git"],
  ["git@h.test:a/b.git", undefined, "git@h.test:a/b.git"],
  ["https://me:secret@h.test/b.git", undefined, "https://h.test/b.git"],
  ["https://me:sec@ret@h.test/b.git", undefined, "https://h.test/b.git"],
  ["../b.git", "https://h.test/team/app.git", "https://h.test/team/b.git"],
  ["../b.git", "https://me:secret@h.test/team/app.git/", "https://h.test/team/b.git"],
  ["./b", "ssh://git@h.test/team/app", "ssh://git@h.test/team/app/b"],
  ["../../other/b", "git@h.test:team/app.git", "git@h.test:other/b"],
  ["../b", "/srv/app", undefined],
  ["../b", undefined, undefined],
  ["../b", "ext::sh -c x", undefined],
  ["../../../../../../b", "git@h.test:app.git", undefined],
  ["file:///etc", undefined, undefined],
  ["ext::sh -c x", undefined, undefined],
  ["-oProxyCommand=x:y", undefined, undefined],
  ["https://-x/y", undefined, undefined],
  ["https://h.test/a b", undefined, undefined],
  ["/etc", undefined, undefined],
  ["", undefined, undefined],
])("gives the URL %j beside the remote %j the address %j", (url, remote, address) => {
  expect(networkUrl(url, remote)).toBe(address)
})
