import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { createServer } from "node:net"
import { dirname, join } from "node:path"
import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { MAX_SUBMODULE_DEPTH } from "@berth/protocol/bridge-limits"
import { BerthError, ERRORS, type ErrorCode } from "@berth/protocol/errors"
import { requires } from "@berth/testing/requires"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { systemClock } from "../../processes/clock.ts"
import { zombies } from "../../processes/testing/family.ts"
import { TRANSFER_DEADLINE_MS } from "../../repos/git.ts"
import type { HostRepos } from "../../repos/host-repos.ts"
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

const remote = (
  directory: string,
  ref?: string,
  url = place.server.url(directory),
): PlannedRepo => ({
  directory,
  source: { kind: "remote", url },
  ...(ref && { ref }),
})
const at = (directory: string) => join(place.workspace, directory)
const long = (new Date("2020-01-01").getTime() - Date.now()) / 1000

const expectNothingLeft = () => {
  expect(place.family.running()).toEqual([])
  expect(zombies()).toEqual([])
  expect(readdirSync(place.workspace)).not.toContain(".berth-cloning")
  expect(readdirSync(join(place.root, "sandbox", "home"))).toEqual(["agent"])
}

const large = () => ({ "large.bin": randomBytes(3_000_000) })

describe("a git sync that fails", () => {
  const failsWith = async (code: ErrorCode, repo: PlannedRepo, environment = {}) => {
    const failed = place.sync({ repos: [repo], environment })
    await expect(failed).rejects.toMatchObject({ code, message: expect.stringMatching(/web/) })
    expect(ERRORS[code].hint).not.toBe("")
    expectNothingLeft()
    expect(readdirSync(place.workspace)).toEqual([])
  }

  it("[R2.9] reports a server that refuses connections as unreachable", async () => {
    const url = place.server.url("web")
    await place.server.close()
    await failsWith("repo.unreachable", remote("web", undefined, url))
  })

  it("[R2.9] reports a server that hangs as unreachable", async () => {
    place.upstream("web")
    place.server.fault = { hangs: true }
    await failsWith("repo.unreachable", remote("web"), { GIT_HTTP_LOW_SPEED_TIME: "1" })
  })

  it("[R2.9] reports a server that breaks off in the middle as unreachable, and clones when it is well again", async () => {
    place.upstream("web", large())
    place.server.fault = { cutAfterBytes: 200_000 }
    await failsWith("repo.unreachable", remote("web"))
    place.server.fault = {}
    expect((await place.sync({ repos: [remote("web")] })).facts.did).toEqual(["cloned"])
  })

  it("[R2.9] reports missing and wrong credentials instead of asking for a password, and keeps none in the repo", async () => {
    place.upstream("web")
    place.server.fault = { credentials: "user:right" }
    await failsWith("repo.auth_failed", remote("web"))
    await failsWith("repo.auth_failed", remote("web"), helper("wrong"))
    const { facts } = await place.sync({ repos: [remote("web")], environment: helper("right") })
    expect(facts.did).toEqual(["cloned"])
    expect(readFileSync(at("web/.git/config"), "utf8")).not.toMatch(/right|credential/)
  })

  it("[R2.9] reports a repo and a ref that do not exist", async () => {
    place.upstream("web")
    await failsWith("repo.not_found", remote("web", undefined, place.server.url("nothing")))
    await failsWith("repo.not_found", remote("web", undefined, "file:///nothing/here"))
    for (const ref of ["nothing", "refs/pull/9/head", "0123456789abcdef0123456789abcdef01234567"])
      await failsWith("repo.ref_unknown", remote("web", ref))
  })

  it("[R2.9] gives up a transfer that misses its deadline", async () => {
    const silent = createServer(() => {})
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve))
    onTestFinished(() => void silent.close())
    const { port } = silent.address() as { port: number }
    const clock = {
      nowMs: systemClock.nowMs,
      after: (ms: number, call: () => void) =>
        systemClock.after(ms === TRANSFER_DEADLINE_MS ? 300 : ms, call),
    }
    const repos = [remote("web", undefined, `git://127.0.0.1:${port}/web`)]
    await expect(place.sync({ repos, clock })).rejects.toMatchObject({ code: "deadline.exceeded" })
    expectNothingLeft()
  })

  it("[R2.9] cancels the other repos when one fails", async () => {
    place.upstream("web")
    place.server.onRequest = (path) => {
      place.server.fault = { hangs: path.startsWith("/web") }
    }
    const repos = [remote("web"), remote("api", undefined, place.server.url("nothing"))]
    await expect(place.sync({ repos })).rejects.toMatchObject({ code: "repo.not_found" })
    expectNothingLeft()
  })

  requires("root").it("[R2.9] reports a full disk, and leaves nothing on it", async () => {
    place.upstream("web", large())
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", place.workspace])
    onTestFinished(() => void execFileSync("umount", ["--lazy", place.workspace]))
    await failsWith("repo.disk_full", remote("web"))
  })
})

/** A credential helper as main configures one: by the environment, reached by git alone. */
const helper = (password: string) => ({
  GIT_CONFIG_COUNT: "1",
  GIT_CONFIG_KEY_0: "credential.helper",
  GIT_CONFIG_VALUE_0: `!f() { echo username=user; echo password=${password}; }; f`,
})

describe("a git sync that is cut short", () => {
  // Each phase is recognised by the request that it begins with, and the server then says nothing more.
  it.each([
    ["it asks for refs", /info\/refs/],
    ["it receives the commits", /git-upload-pack$/],
  ])("[R2.9] leaves nothing when it is cancelled while %s", async (_, phase) => {
    place.upstream("web", large())
    const cancel = new AbortController()
    place.server.onRequest = (path) => {
      if (!phase.test(path)) return
      place.server.fault = { hangs: true }
      setImmediate(() => cancel.abort(new Error("the boot ended")))
    }
    const cut = place.sync({ repos: [remote("web")], signal: cancel.signal })
    await expect(cut).rejects.toMatchObject({ code: "cancelled" })
    expectNothingLeft()
    expect(readdirSync(place.workspace)).toEqual([])
    place.server.fault = {}
    place.server.onRequest = () => {}
    expect((await place.sync({ repos: [remote("web")] })).facts.did).toEqual(["cloned"])
  })

  it("[R2.9] leaves a repo as it was when its update is cancelled", async () => {
    const web = place.upstream("web")
    await place.sync({ repos: [remote("web")] })
    const before = run(at("web"), "rev-parse", "HEAD")
    commit(web, large())
    const cancel = new AbortController()
    place.server.onRequest = (path) => {
      if (!path.endsWith("git-upload-pack")) return
      place.server.fault = { hangs: true }
      setImmediate(() => cancel.abort())
    }
    const cut = place.sync({ repos: [remote("web")], how: "update", signal: cancel.signal })
    await expect(cut).rejects.toMatchObject({ code: "cancelled" })
    expectNothingLeft()
    expect(run(at("web"), "rev-parse", "HEAD")).toBe(before)
    expect(run(at("web"), "status", "--short")).toBe("")
    expect(execFileSync("find", [at("web"), "-name", "*.lock"], { encoding: "utf8" })).toBe("")
  })

  it("[R2.9] clones anew where a killed boot left half a clone", async () => {
    place.upstream("web")
    run(place.workspace, "init", "--quiet", ".berth-cloning/0")
    write(at(".berth-cloning/0"), { ".git/index.lock": "", "half.txt": "x" })
    mkdirSync(at("web"))
    expect((await place.sync({ repos: [remote("web")] })).facts.did).toEqual(["cloned"])
    expect(existsSync(at("web/half.txt"))).toBe(false)
    expectNothingLeft()
  })

  it("[R2.9] removes old lock files with a warning, and leaves new ones", async () => {
    const web = place.upstream("web")
    await place.sync({ repos: [remote("web")] })
    commit(web, { "README.md": "two\n" })
    const locks = [".git/index.lock", ".git/refs/heads/main.lock"].map((path) => at(`web/${path}`))
    for (const lock of locks) writeFileSync(lock, "")
    await expect(place.sync({ repos: [remote("web")], how: "update" })).rejects.toMatchObject({
      code: "repo.git_failed",
      message: expect.stringContaining("index.lock"),
    })
    expect(locks.every((lock) => existsSync(lock))).toBe(true)
    const then = Date.now() / 1000 + long
    for (const lock of locks) utimesSync(lock, then, then)
    const told = await place.sync({ repos: [remote("web")], how: "update" })
    expect(told.facts.did).toEqual(["updated"])
    expect(told.warnings.join()).toContain("index.lock")
  })

  it("[R2.9] finishes a checkout that was killed half-way, and keeps the files that it overwrites", async () => {
    const web = place.upstream("web", { "a.txt": "old\n", "b.txt": "old\n" })
    await place.sync({ repos: [remote("web")] })
    const next = commit(web, { "a.txt": "new\n", "b.txt": "new\n", "c.txt": "new\n" })
    // The tree as a killed checkout leaves it: one file is new, one half-written, one added.
    run(at("web"), "fetch", "--quiet", web, "main")
    run(at("web"), "update-ref", "refs/berth/under-way", next)
    write(at("web"), { "a.txt": "new\n", "b.txt": "ne", "c.txt": "", "mine.txt": "mine\n" })
    const told = await place.sync({ repos: [remote("web")], how: "update" })
    expect(told.facts).toMatchObject({ did: ["updated"], commits: [next] })
    expect(run(at("web"), "status", "--short")).toBe("?? mine.txt")
    expect(readFileSync(at("web/b.txt"), "utf8")).toBe("new\n")
    const [kept = ""] = /refs\/berth\/kept\/\w+/.exec(told.warnings.join()) ?? []
    expect(run(at("web"), "show", `${kept}:b.txt`)).toBe("ne")
    const again = await place.sync({ repos: [remote("web")], how: "update" })
    expect(again).toMatchObject({ facts: { did: ["unchanged"] }, warnings: [] })
  })

  it("[R2.9] finishes the first checkout of a repo that was empty", async () => {
    const web = place.upstream("web")
    run(web, "update-ref", "-d", "refs/heads/main")
    await place.sync({ repos: [remote("web")] })
    const first = commit(web, { "a.txt": "theirs\n" })
    run(at("web"), "fetch", "--quiet", web, "main")
    run(at("web"), "update-ref", "refs/berth/under-way", first)
    write(at("web"), { "a.txt": "mine\n" })
    const told = await place.sync({ repos: [remote("web")], how: "update" })
    expect(told.facts).toMatchObject({ did: ["updated"], commits: [first] })
    const [kept = ""] = /refs\/berth\/kept\/\w+/.exec(String(told.facts.kept)) ?? []
    expect(run(at("web"), "show", `${kept}:a.txt`)).toBe("mine")
  })

  it("[R2.8] [R2.9] keeps ignored files that it overwrites when it finishes a checkout, and says where", async () => {
    const ignored = { ".gitignore": "/.env\n/file\n/directory\n/link\n/staged\n/cache\n" }
    const web = place.upstream("web", ignored)
    await place.sync({ repos: [remote("web")] })
    const theirs = { ".env": "theirs\n", "file/a": "theirs\n", directory: "theirs\n" }
    const next = commit(web, { ...theirs, "link/a": "theirs\n" })
    run(at("web"), "fetch", "--quiet", web, "main")
    run(at("web"), "update-ref", "refs/berth/under-way", next)
    const mine = { ".env": "mine", file: "mine", "directory/*": "mine", staged: "mine" }
    write(at("web"), { ...mine, "cache/a": "in nobody's way" })
    symlinkSync("cache", at("web/link"))
    run(at("web"), "add", "--force", "staged")
    const told = await place.sync({ repos: [remote("web")], how: "update" })
    expect(told.facts).toMatchObject({ did: ["updated"], commits: [next] })
    expect(readFileSync(at("web/.env"), "utf8")).toBe("theirs\n")
    expect(readFileSync(at("web/cache/a"), "utf8")).toBe("in nobody's way")
    const [kept = ""] = /refs\/berth\/kept\/\w+/.exec(String(told.facts.kept)) ?? []
    expect(told.warnings.join()).toContain(kept)
    for (const name of Object.keys(mine))
      expect(run(at("web"), "show", `${kept}:${name}`)).toBe("mine")
    expect(run(at("web"), "show", `${kept}:link`)).toBe("cache")
    expect(run(at("web"), "ls-tree", "-r", "--name-only", kept)).not.toContain("cache/a")
  })
})

describe("a repo of the host", () => {
  /** Does the server's part: bundles the wanted ref, without the commits that the sandbox has. */
  const hostOf = (path: string, asked: unknown[] = []): HostRepos => ({
    fetch: async ({ repo, ref, have, path: to }) => {
      asked.push({ repo, ref, have })
      const tip = run(path, "rev-parse", `${ref ?? "HEAD"}^{commit}`)
      const branch = ref === undefined ? run(path, "branch", "--show-current") : undefined
      const news = run(path, "rev-list", tip, ...have.map((id) => `^${id}`))
      if (news === "") return { commit: tip, branch, isBundled: false }
      run(path, "update-ref", "refs/berth/sent", tip)
      run(path, "bundle", "create", "--quiet", to, "refs/berth/sent", ...have.map((id) => `^${id}`))
      return { commit: tip, branch, isBundled: true }
    },
  })
  const host = (ref?: string): PlannedRepo => ({
    directory: "web",
    source: { kind: "host" },
    ...(ref && { ref }),
  })

  it("[R2.2] comes as a bundle that is removed afterwards, and later only with new commits", async () => {
    const web = place.upstream("web")
    const first = run(web, "rev-parse", "HEAD")
    const asked: unknown[] = []
    const hostRepos = hostOf(web, asked)
    const told = await place.sync({ repos: [host()], hostRepos })
    expect(told.facts).toMatchObject({ did: ["cloned"], commits: [first], branches: ["main"] })
    expect(run(at("web"), "status", "--short", "--branch")).toBe("## main...origin/main")
    expect(run(at("web"), "remote", "-v")).toContain("berth-host://web")
    expectNothingLeft()
    const second = commit(web, { "README.md": "two\n" })
    const updated = await place.sync({ repos: [host()], hostRepos, how: "update" })
    expect(updated.facts).toMatchObject({ did: ["updated"], commits: [second] })
    const same = await place.sync({ repos: [host()], hostRepos, how: "update" })
    expect(same.facts).toMatchObject({ did: ["unchanged"] })
    expect(asked).toMatchObject([{ have: [] }, { have: [first] }, { have: [second] }])
    const detached = await place.sync({ repos: [host(first)], hostRepos, how: "update" })
    expect(detached.facts).toMatchObject({ commits: [first], branches: [""] })
  })

  it("has the author of the host's repo, unless the user inside has one", async () => {
    const web = place.upstream("web")
    const { fetch } = hostOf(web)
    const author = { authorName: "Ada", authorEmail: "ada@example.test" }
    const hostRepos: HostRepos = {
      fetch: async (wanted, signal) => ({ ...(await fetch(wanted, signal)), ...author }),
    }
    const environment = { GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: join(place.root, "global") }
    run(place.root, "config", "--file", "global", "user.email", "inside@example.test")
    await place.sync({ repos: [host()], hostRepos, environment })
    expect(run(at("web"), "config", "--local", "--get-regexp", "^user")).toBe("user.name Ada")
  })

  it("comes without a submodule that the server does not find, with a warning", async () => {
    const library = place.upstream("library", { "lib.txt": "lib\n" })
    const web = place.upstream("web")
    addSubmodule(web, library, "../library")
    const { fetch } = hostOf(web)
    const hostRepos: HostRepos = {
      fetch: async (wanted, signal) => {
        if (wanted.submodule === undefined) return await fetch(wanted, signal)
        throw new BerthError("repo.not_of_workspace", "that commit is none of the workspace's ref")
      },
    }
    const told = await place.sync({ repos: [host()], hostRepos })
    expect(told.facts).toMatchObject({ did: ["cloned"] })
    expect(told.warnings).toEqual([expect.stringContaining("submodule library is left out")])
    expect(run(at("web"), "show", "HEAD:README.md")).toBe("one")
  })

  it("comes without the submodules that are nested too deep, with a warning, and asks for none of them", async () => {
    const paths = Array.from({ length: MAX_SUBMODULE_DEPTH + 2 }, (_, depth) =>
      place.upstream(`deep${depth}`),
    )
    for (const [depth, path] of [...paths.entries()].toReversed()) {
      const inner = paths[depth + 1]
      if (inner !== undefined) addSubmodule(path, inner, `../deep${depth + 1}`)
    }
    const depths: number[] = []
    const hostRepos: HostRepos = {
      fetch: async (wanted, signal) => {
        const depth = wanted.submodule?.paths.length ?? 0
        depths.push(depth)
        return await hostOf(paths[depth] ?? "").fetch(wanted, signal)
      },
    }
    const told = await place.sync({ repos: [host()], hostRepos })
    expect(told.facts).toMatchObject({ did: ["cloned"] })
    expect(depths).toEqual(Array.from({ length: MAX_SUBMODULE_DEPTH + 1 }, (_, depth) => depth))
    const deepest = Array.from({ length: MAX_SUBMODULE_DEPTH }, (_, at) => `deep${at + 1}`).join(
      "/",
    )
    expect(readFileSync(at(`web/${deepest}/README.md`), "utf8")).toBe("one\n")
    expect(told.warnings).toEqual([
      expect.stringContaining(`submodule ${deepest}/deep${MAX_SUBMODULE_DEPTH + 1} is left out`),
    ])
  })

  requires("root").it(
    "comes as a bundle that the sandbox's user can read, and cannot replace",
    async () => {
      const web = place.upstream("web")
      const user = { uid: 1234, gid: 1234 }
      execFileSync("chown", ["1234:1234", place.workspace])
      const { fetch } = hostOf(web)
      const owners: unknown[] = []
      const hostRepos: HostRepos = {
        fetch: async (wanted, signal) => {
          const { uid, mode } = statSync(dirname(wanted.path))
          owners.push([uid, mode & 0o777])
          return await fetch(wanted, signal)
        },
      }
      expect((await place.sync({ repos: [host()], hostRepos, user })).facts.did).toEqual(["cloned"])
      expect(owners).toEqual([[0, 0o711]])
      expectNothingLeft()
    },
  )
})
