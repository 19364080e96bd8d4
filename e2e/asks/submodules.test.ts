import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { hostRepos } from "@berth/supervisor/bridge/host-repos"
import { bench, commit, run, write } from "@berth/supervisor/repos/testing/upstream"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { bothEnds } from "./both-ends.ts"

const FILE_ALLOWED = ["-c", "protocol.file.allow=always"]

const add = (repo: string, url: string, path: string) => {
  run(repo, ...FILE_ALLOWED, "submodule", "--quiet", "add", url, path)
  run(repo, "commit", "--quiet", "--message", path)
}
const checkOut = (repo: string) =>
  run(repo, ...FILE_ALLOWED, "submodule", "--quiet", "update", "--init", "--recursive")

/** Repos that are copied for each test: `app` has a submodule `libs/a`, in which lies `inner`, by relative URLs. */
const made = mkdtempSync(join(tmpdir(), "berth-submodules-"))
beforeAll(() => {
  for (const name of ["inner", "a", "app"]) {
    run(made, "init", "--quiet", "--template=", "-b", "main", name)
    commit(join(made, name), { [`${name}.txt`]: `${name}\n` })
  }
  add(join(made, "a"), "../inner", "inner")
  add(join(made, "app"), "../a", "libs/a")
  checkOut(join(made, "app"))
})
afterAll(() => rmSync(made, { recursive: true, force: true }))

/** The repo `app` on a host, and a sandbox that gets it. */
const prepare = async () => {
  const place = await bench()
  const ends = await bothEnds()
  cpSync(made, join(place.root, "upstream"), { recursive: true, verbatimSymlinks: true })
  const app = join(place.root, "upstream/app")
  ends.startServer(await ends.answers([{ directory: "app", url: app }]))
  const sync = (how: "clone" | "update" = "clone") =>
    place.sync({
      repos: [{ directory: "app", source: { kind: "host" } }],
      hostRepos: hostRepos(ends.hostRequests),
      how,
    })
  const at = (...names: string[]) => join(place.workspace, "app", ...names)
  const text = (...names: string[]) => readFileSync(at(...names), "utf8")
  /** Leaves the host's repo as after a clone that is not recursive. */
  const forget = () => {
    for (const name of [".git/modules", "libs"]) rmSync(join(app, name), { recursive: true })
    mkdirSync(join(app, "libs/a"), { recursive: true })
  }
  return { server: place.server, app, sync, at, text, forget }
}

describe("the submodules of a repo of the host", () => {
  it("are checked out at the recorded commits, nested ones too, and follow the host at the next sync", async () => {
    const { app, sync, at, text } = await prepare()
    const { facts, warnings } = await sync()
    expect(facts).toMatchObject({ did: ["cloned"] })
    expect(warnings).toEqual([])
    expect(text("libs/a/a.txt") + text("libs/a/inner/inner.txt")).toBe("a\ninner\n")
    expect(run(at("libs/a"), "rev-parse", "HEAD")).toBe(run(app, "rev-parse", "HEAD:libs/a"))
    expect(run(at(), "status", "--porcelain")).toBe("")
    // As git makes submodules: their repos are not in the tree.
    expect(text("libs/a/.git")).toBe("gitdir: ../../.git/modules/libs/a\n")

    const moved = commit(join(app, "libs/a"), { "a.txt": "two\n" })
    add(app, "../inner", "more")
    // Like a boot that was killed while it made a submodule.
    run(at(), "init", "--quiet", "more")
    run(app, "commit", "--quiet", "--all", "--message", "moved")
    expect((await sync("update")).facts).toMatchObject({ did: ["updated"] })
    expect(text("libs/a/a.txt") + text("more/inner.txt")).toBe("two\ninner\n")
    expect(run(at("libs/a"), "rev-parse", "HEAD")).toBe(moved)
    expect((await sync("update")).facts).toMatchObject({ did: ["unchanged"] })
    expect(run(at(), "status", "--porcelain")).toBe("")
  })

  const absent: readonly { readonly title: string; readonly work: () => Promise<void> }[] = [
    {
      title:
        "are cloned from beside the repo's remote where the host does not have them, or the error names the submodule that cannot be",
      work: async () => {
        const { app, server, sync, at, text, forget } = await prepare()
        run(app, "remote", "add", "origin", server.url("nowhere/app"))
        forget()
        await expect(sync()).rejects.toMatchObject({
          message: expect.stringMatching(
            /^submodule libs\/a could not be cloned from .*nowhere\/a, and it is not checked out .*git submodule update --init/,
          ),
        })
        run(app, "remote", "set-url", "origin", server.url("app"))
        expect((await sync()).warnings).toEqual([])
        expect(text("libs/a/a.txt") + text("libs/a/inner/inner.txt")).toBe("a\ninner\n")
        expect(run(at("libs/a"), "remote", "get-url", "origin")).toBe(server.url("a"))
      },
    },
    {
      title: "are left out with a warning that says what to do where no place has them",
      work: async () => {
        const { app, sync, at, text, forget } = await prepare()
        forget()
        const { warnings } = await sync()
        expect(warnings).toEqual([
          expect.stringMatching(
            /^app: submodule libs\/a is left out: it is not checked out .*URL is \.\.\/a\).*git submodule update --init/,
          ),
        ])
        expect(text("app.txt")).toBe("app\n")
        expect(existsSync(at("libs/a/a.txt"))).toBe(false)
        checkOut(app)
        expect((await sync("update")).warnings).toEqual([])
        expect(text("libs/a/inner/inner.txt")).toBe("inner\n")
      },
    },
  ]
  for (const { title, work } of sampled("submodules that the host does not have", absent, 1))
    it(title, work)

  it("are left out where a name leads elsewhere, a path is an option or a URL is a command", async () => {
    const { app, sync, at, text } = await prepare()
    const id = run(app, "rev-parse", "HEAD")
    const ran = join(app, "../ran")
    write(app, {
      ".gitmodules": [
        '[submodule "../../hooks"]\n\tpath = evil\n\turl = ../x\n',
        '[submodule "b"]\n\tpath = -u\n\turl = ../x\n',
        `[submodule "c"]\n\tpath = c\n\turl = ext::sh -c touch% ${ran}\n`,
      ].join(""),
    })
    run(app, "add", ".gitmodules")
    const entries = ["evil", "-u", "c"].map((path) => ["--cacheinfo", `160000,${id},${path}`])
    run(app, "update-index", "--add", ...entries.flat())
    run(app, "commit", "--quiet", "--message", "evil")
    const { warnings } = await sync()
    expect(warnings.map((line) => line.slice(0, 29))).toEqual([
      "app: submodule evil is left o",
      "app: submodule -u is left out",
      "app: submodule c is left out:",
    ])
    expect(text("app.txt")).toBe("app\n")
    expect([existsSync(at(".git/hooks/HEAD")), existsSync(ran)]).toEqual([false, false])
  })
})
