import { chmodSync, chownSync, existsSync, lstatSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { StepFacts } from "@berth/protocol/boot"
import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { beforeEach, describe, expect, it } from "vitest"
import {
  addSubmodule,
  type Bench,
  bench,
  commit,
  run,
  write,
} from "../../repos/testing/upstream.ts"

let place: Bench
beforeEach(async () => {
  place = await bench()
})

const remote = (directory: string, ref?: string, name = directory): PlannedRepo => ({
  directory,
  source: { kind: "remote", url: place.server.url(name) },
  ...(ref && { ref }),
})
const at = (directory: string) => join(place.workspace, directory)
const text = (directory: string, file: string) => readFileSync(join(at(directory), file), "utf8")
const headOf = (directory: string) => run(at(directory), "rev-parse", "HEAD")
const branchOf = (directory: string) => run(at(directory), "rev-parse", "--abbrev-ref", "HEAD")

describe("a clone", () => {
  it("[R2.2] brings all repos, each on its branch, which tracks origin's", async () => {
    const web = place.upstream("web")
    place.upstream("tools/api")
    const told = await place.sync({ repos: [remote("web"), remote("tools/api")] })
    expect(text("web", "README.md")).toBe("one\n")
    expect(run(at("web"), "status", "--short", "--branch")).toBe("## main...origin/main")
    expect(StepFacts.parse(told.facts)).toMatchObject({
      repos: ["web", "tools/api"],
      did: ["cloned", "cloned"],
      commits: [run(web, "rev-parse", "HEAD"), headOf("tools/api")],
      branches: ["main", "main"],
      kept: ["", ""],
    })
    expect(told.did).toContain("web cloned (main at ")
    expect(told.facts.objects).toBeGreaterThan(0)
    expect(told.progress.at(-1)).toMatch(/web: cloned/)
    expect(told.progress.at(-1)).toMatch(/tools\/api: cloned/)
    expect(told.warnings).toEqual([])
    expect(readdirSync(place.workspace).sort()).toEqual(["tools", "web"])
    expect(place.family.running()).toEqual([])
  })

  it("has the whole history and, where the server can, only the blobs of the checkout", async () => {
    const web = place.upstream("web")
    commit(web, { "README.md": "two\n" })
    await place.sync({ repos: [remote("web")] })
    expect(run(at("web"), "rev-list", "--count", "HEAD")).toBe("2")
    const missing = run(at("web"), "rev-list", "--objects", "--missing=print", "HEAD")
    expect(missing.split("\n").filter((line) => line.startsWith("?"))).toHaveLength(1)
    run(web, "config", "uploadpack.allowFilter", "false")
    await place.sync({ repos: [remote("whole", undefined, "web")] })
    expect(run(at("whole"), "rev-list", "--objects", "--missing=print", "HEAD")).not.toContain("?")
  })

  it("takes a branch, a tag, a commit that no branch holds, and a pull request's ref", async () => {
    const web = place.upstream("web")
    const first = run(web, "rev-parse", "HEAD")
    run(web, "tag", "-a", "-m", "first", "v1")
    run(web, "checkout", "--quiet", "-b", "topic/a")
    const topic = commit(web, { "topic.txt": "topic\n" })
    run(web, "checkout", "--quiet", "--detach", "main")
    const pull = commit(web, { "pull.txt": "pull\n" })
    run(web, "update-ref", "refs/pull/7/head", pull)
    const lost = commit(web, { "lost.txt": "lost\n" })
    run(web, "checkout", "--quiet", "main")
    commit(web, { "README.md": "two\n" })
    const refs = ["topic/a", "v1", lost, "refs/pull/7/head", "pull/7/head", first.slice(0, 10)]
    const repos = refs.map((ref, index) => remote(`r${index}`, ref, "web"))
    const commits = [topic, first, lost, pull, pull, first]
    const branches = ["topic/a", "", "", "", "", ""]
    const cloned = await place.sync({ repos })
    expect(cloned.facts).toMatchObject({ commits, branches })
    expect(branchOf("r0")).toBe("topic/a")
    expect(run(at("r0"), "rev-parse", "--abbrev-ref", "@{upstream}")).toBe("origin/topic/a")
    expect(branchOf("r1")).toBe("HEAD")
    const updated = await place.sync({ repos, how: "update" })
    expect(updated.facts).toMatchObject({ commits, did: refs.map(() => "unchanged") })
    expect(updated.warnings).toEqual([])
  })

  it("follows a plan that changes from one kind of ref to another", async () => {
    const web = place.upstream("web")
    const first = run(web, "rev-parse", "HEAD")
    run(web, "checkout", "--quiet", "--detach")
    const lost = commit(web, { "lost.txt": "lost\n" })
    run(web, "checkout", "--quiet", "main")
    const second = commit(web, { "README.md": "two\n" })
    for (const [ref, want] of [
      [lost, lost],
      [first, first],
      [undefined, second],
      ["main", second],
    ] as const) {
      const told = await place.sync({ repos: [remote("web", ref)], how: "update" })
      expect(told.facts.commits).toEqual([want])
    }
    expect(branchOf("web")).toBe("main")
  })

  it("takes an empty repo as it is, and its first commit later", async () => {
    const web = place.upstream("web")
    run(web, "update-ref", "-d", "refs/heads/main")
    const told = await place.sync({ repos: [remote("web")] })
    expect(told.did).toBe("web cloned (empty)")
    const first = commit(web, { "README.md": "first\n" })
    await place.sync({ repos: [remote("web")], how: "update" })
    expect(headOf("web")).toBe(first)
  })

  it("is put into another repo's tree after that repo", async () => {
    place.upstream("web")
    place.upstream("inner")
    await place.sync({ repos: [remote("web/parts/inner", undefined, "inner"), remote("web")] })
    expect(existsSync(at("web/README.md"))).toBe(true)
    expect(existsSync(at("web/parts/inner/.git"))).toBe(true)
  })

  it("brings submodules where there are any", async () => {
    const library = place.upstream("library", { "lib.txt": "lib\n" })
    addSubmodule(place.upstream("web"), library, place.server.url("library"))
    await place.sync({ repos: [remote("web")] })
    expect(text("web", "library/lib.txt")).toBe("lib\n")
    expect(run(at("web"), "status", "--short")).toBe("")
  })

  it("keeps no credential of an address in the repo's configuration", async () => {
    place.upstream("web")
    const url = place.server.url("web").replace("http://", "http://secret-token@")
    await place.sync({ repos: [{ directory: "web", source: { kind: "remote", url } }] })
    expect(text("web", ".git/config")).not.toContain("secret-token")
  })

  it("[R2.3] adds no file of Berth's to a tree that tracks .berth and .opencode", async () => {
    const files = {
      ".berth/start.sh": "a\n",
      ".opencode/opencode.json": "{}\n",
      ".berth-cloning": "x",
    }
    const web = place.upstream("web", files)
    await place.sync({ repos: [remote("web")] })
    expect(run(at("web"), "status", "--short", "--ignored")).toBe("")
    commit(web, { ".opencode/node_modules/x": "1\n", ".berth/start.sh": "b\n" })
    const told = await place.sync({ repos: [remote("web")], how: "update" })
    expect(told.facts.did).toEqual(["updated"])
    expect(run(at("web"), "status", "--short", "--ignored")).toBe("")
    expect(readdirSync(at("web")).sort()).toEqual([".berth", ".berth-cloning", ".git", ".opencode"])
  })

  it("runs no hook that a template put into the repo, neither at once nor at an update", async () => {
    const web = place.upstream("web")
    const template = join(place.root, "template")
    write(template, { "hooks/post-checkout": "#!/bin/sh\ntouch ran\n" })
    chmodSync(join(template, "hooks/post-checkout"), 0o755)
    const environment = { GIT_TEMPLATE_DIR: template }
    await place.sync({ repos: [remote("web")], environment })
    expect(existsSync(at("web/.git/hooks/post-checkout"))).toBe(true)
    commit(web, { "README.md": "two\n" })
    await place.sync({ repos: [remote("web")], environment, how: "update" })
    expect(existsSync(at("web/ran"))).toBe(false)
  })
})

describe("a restore", () => {
  it("clones a repo that was added since, leaves the others as they are, and warns of a repo that the workspace no longer names", async () => {
    const web = place.upstream("web")
    place.upstream("api")
    place.upstream("old")
    await place.sync({ repos: [remote("web"), remote("old")] })
    commit(web, { "README.md": "two\n" })
    write(at("web"), { "README.md": "mine\n" })
    const told = await place.sync({ repos: [remote("web"), remote("api")], how: "restore" })
    expect(told.facts).toMatchObject({ repos: ["api"], did: ["cloned"] })
    expect(text("web", "README.md")).toBe("mine\n")
    expect(text("old", "README.md")).toBe("one\n")
    expect(told.warnings).toEqual(["old: the workspace does not name it any more; its files stay"])
  })

  it("goes on with the other repos when a new one cannot be cloned, and clones it at the next boot", async () => {
    place.upstream("web")
    await place.sync({ repos: [remote("web")] })
    const repos = [remote("web"), remote("later")]
    const told = await place.sync({ repos, how: "restore" })
    expect(told.warnings).toEqual([expect.stringContaining("later: not there, and could not be")])
    expect(readdirSync(place.workspace)).toEqual(["web"])
    place.upstream("later")
    expect((await place.sync({ repos, how: "restore" })).facts).toMatchObject({ did: ["cloned"] })
  })
})

describe("an update", () => {
  const cloned = async () => {
    const web = place.upstream("web", { "README.md": "one\n", ".gitignore": ".env\n" })
    await place.sync({ repos: [remote("web")] })
    return web
  }
  const update = (ref?: string) => place.sync({ repos: [remote("web", ref)], how: "update" })

  it("[R2.2] fast-forwards a clean repo, and reports an unchanged one", async () => {
    const web = await cloned()
    expect((await update()).facts.did).toEqual(["unchanged"])
    const next = commit(web, { "README.md": "two\n" })
    write(at("web"), { "notes.txt": "mine\n" })
    const told = await update()
    expect(told.facts).toMatchObject({ did: ["updated"], commits: [next], branches: ["main"] })
    expect(text("web", "README.md")).toBe("two\n")
    expect(text("web", "notes.txt")).toBe("mine\n")
    expect(told.warnings).toEqual([])
  })

  it("follows upstream's new default branch, and a history that it rewrote", async () => {
    const web = await cloned()
    run(web, "checkout", "--quiet", "-b", "trunk")
    const trunk = commit(web, { "README.md": "trunk\n" })
    expect((await update()).facts).toMatchObject({ branches: ["trunk"], commits: [trunk] })
    run(web, "commit", "--quiet", "--amend", "-m", "rewritten")
    const told = await update()
    expect(told.facts).toMatchObject({ did: ["updated"], commits: [run(web, "rev-parse", "HEAD")] })
  })

  const WORK: [string, () => void, string][] = [
    [
      "a changed file",
      () => write(at("web"), { "README.md": "mine\n" }),
      "1 file with uncommitted changes",
    ],
    [
      "a staged file",
      () => {
        write(at("web"), { "new.txt": "mine\n" })
        run(at("web"), "add", "new.txt")
      },
      "1 file with uncommitted changes",
    ],
    [
      "a file that it would overwrite",
      () => write(at("web"), { "added.txt": "mine\n" }),
      "added.txt",
    ],
    [
      "an ignored file that it would overwrite",
      () => write(at("web"), { ".env": "mine\n" }),
      ".env",
    ],
    [
      "the user's own commits",
      () => void commit(at("web"), { "own.txt": "mine\n" }),
      "1 commit on main that upstream lacks (upstream has 1 more)",
    ],
    [
      "commits on a detached HEAD",
      () => {
        run(at("web"), "checkout", "--quiet", "--detach")
        commit(at("web"), { "own.txt": "mine\n" })
      },
      "1 commit on a detached HEAD that upstream lacks",
    ],
    [
      "commits on the wanted branch, while another is checked out",
      () => {
        commit(at("web"), { "own.txt": "mine\n" })
        run(at("web"), "checkout", "--quiet", "-b", "other", "origin/main")
      },
      "1 commit on main that upstream lacks",
    ],
  ]
  it.each(sampled("kinds of work that an update keeps", WORK, 3))(
    "[R2.9] keeps %s, and says so",
    async (_, work, kept) => {
      const web = await cloned()
      commit(web, { "README.md": "two\n", "added.txt": "theirs\n", ".env": "theirs\n" })
      work()
      const before = { head: headOf("web"), branch: branchOf("web") }
      const files = () => readdirSync(at("web")).filter((name) => name !== ".git")
      const state = () => files().map((name) => [name, text("web", name)])
      const stood = state()
      const told = await update()
      expect(told.facts.did).toEqual(["kept"])
      expect((told.facts.kept as string[])[0]).toContain(kept)
      expect(told.warnings.join()).toContain(kept)
      expect(state()).toEqual(stood)
      expect({ head: headOf("web"), branch: branchOf("web") }).toEqual(before)
      expect(told.facts.commits).toEqual([before.head])
    },
  )

  it("leaves a submodule that has a commit of the user's", async () => {
    const library = place.upstream("library", { "lib.txt": "lib\n" })
    const web = place.upstream("web")
    addSubmodule(web, library, place.server.url("library"))
    await place.sync({ repos: [remote("web")] })
    const own = commit(at("web/library"), { "own.txt": "mine\n" })
    expect((await update()).facts.did).toEqual(["unchanged"])
    expect(headOf("web/library")).toBe(own)
    commit(web, { "README.md": "two\n" })
    expect((await update()).facts.did).toEqual(["kept"])
    expect(headOf("web/library")).toBe(own)
  })

  it("goes to another address when the plan has one", async () => {
    await cloned()
    place.upstream("fork", { "README.md": "fork\n" })
    await place.sync({ repos: [remote("web", undefined, "fork")], how: "update" })
    expect(text("web", "README.md")).toBe("fork\n")
  })

  it("refuses a directory that is no repo, and keeps its files", async () => {
    place.upstream("web")
    write(at("web"), { "precious.txt": "mine\n" })
    await expect(update()).rejects.toMatchObject({ code: "repo.directory_taken" })
    expect(text("web", "precious.txt")).toBe("mine\n")
  })
})

requires("root").it(
  "a git sync works as the sandbox's user, who then owns every file",
  async () => {
    const user = { uid: 1234, gid: 1234 }
    chownSync(place.workspace, user.uid, user.gid)
    const web = place.upstream("web")
    await place.sync({ repos: [remote("apps/web", undefined, "web")], user })
    commit(web, { "README.md": "two\n" })
    const told = await place.sync({
      repos: [remote("apps/web", undefined, "web")],
      user,
      how: "update",
    })
    expect(told.facts.did).toEqual(["updated"])
    const stack = [at("apps")]
    for (let path = stack.pop(); path !== undefined; path = stack.pop()) {
      const entry = lstatSync(path)
      expect([path, entry.uid, entry.gid]).toEqual([path, user.uid, user.gid])
      if (entry.isDirectory())
        stack.push(...readdirSync(path).map((name) => join(path as string, name)))
    }
  },
)
