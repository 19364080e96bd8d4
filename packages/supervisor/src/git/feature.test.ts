import { execFileSync } from "node:child_process"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import { fileQuery } from "@berth/protocol/files"
import { GitChanges, GitCommit, GitLog, GitStatus } from "@berth/protocol/git"
import { describe, expect, it } from "vitest"
import { AUTHORIZED } from "../bridge/testing/supervisor.ts"
import { until } from "../processes/testing/until.ts"
import { readProcess } from "../processes/tree/proc.ts"
import { TestRepo, USER } from "./testing/repo.ts"
import { serveGit } from "./testing/serve.ts"

/** Names that are hard to pass on: a newline, quotes, an option, magic, and bytes that are no UTF-8. */
const NEWLINE = 'two\nlines "and" \\ ü'
const INVALID = Buffer.from([0x66, 0xff, 0x0a, 0xfe])
const HARD = [NEWLINE, "--all", ":(glob)*", "n".repeat(255)]
const invalid = { base64: INVALID.toString("base64") }

describe("git status", () => {
  it("lists changed files of any name, and the branch with its commit", async () => {
    const repo = new TestRepo()
    const { json } = await serveGit(repo)
    const status = async () => GitStatus.parse(await json("status?repo=shop"))
    expect(await status()).toEqual({
      commit: null,
      branch: "main",
      upstream: null,
      files: [],
      isCut: false,
    })
    for (const name of ["kept", "old name", "gone", ...HARD])
      repo.write(name, `${name}\n`.repeat(9))
    const commit = repo.commit("first")
    repo.git("mv", "old name", "new name")
    rmSync(join(repo.root, "gone"))
    repo.write(NEWLINE, "changed")
    repo.write("added", "x")
    repo.git("add", "added")
    repo.write(INVALID, "x")
    const { files, ...rest } = await status()
    expect(rest).toEqual({ commit, branch: "main", upstream: null, isCut: false })
    expect(files.toSorted((a, b) => String(a.path).localeCompare(String(b.path)))).toEqual(
      [
        { path: "added", index: "A", worktree: "." },
        { path: "gone", index: ".", worktree: "D" },
        { path: NEWLINE, index: ".", worktree: "M" },
        { path: "new name", from: "old name", index: "R", worktree: "." },
        { path: invalid, index: "?", worktree: "?" },
      ].toSorted((a, b) => String(a.path).localeCompare(String(b.path))),
    )
  })

  it("counts commits that the upstream lacks, and shows conflicts", async () => {
    const repo = new TestRepo()
    const { json } = await serveGit(repo)
    repo.write("file", "one\n")
    repo.commit("first")
    repo.git("branch", "other")
    repo.git("branch", "--set-upstream-to=other")
    repo.write("file", "two\n")
    repo.commit("second")
    repo.git("checkout", "--quiet", "other")
    repo.write("file", "three\n")
    repo.commit("third")
    repo.git("checkout", "--quiet", "main")
    expect(() => repo.git("merge", "other")).toThrow("merge other")
    expect(GitStatus.parse(await json("status?repo=shop"))).toMatchObject({
      upstream: { name: "other", ahead: 1, behind: 1 },
      files: [{ path: "file", index: "U", worktree: "U" }],
    })
  })

  it("is refused where there is no repo, and takes no lock of the repo's", async () => {
    const repo = new TestRepo()
    const { get, json } = await serveGit(repo)
    mkdirSync(join(repo.workspace, "empty"))
    for (const wrong of ["empty", "nowhere", "%2Fproc"])
      expect(await json(`status?repo=${wrong}`)).toMatchObject({ code: "git.no_repo" })
    for (const wrong of ["", "?repo=", "?repo=a%00b", "?repo=shop&more=1"])
      expect((await get(`status${wrong}`)).status).toBe(400)
    repo.write("file", "x")
    repo.commit("first")
    const index = join(repo.root, ".git/index")
    const { ino } = statSync(index)
    // Git would note in its index that the content is still the same.
    utimesSync(join(repo.root, "file"), 1, 1)
    for (const look of ["status", "changes", "diff"]) await get(`${look}?repo=shop`)
    expect(statSync(index).ino).toBe(ino)
    writeFileSync(`${index}.lock`, "")
    expect((await get("status?repo=shop")).status).toBe(200)
    expect((await get("diff?repo=shop")).status).toBe(200)
  })
})

describe("git diff", () => {
  const changed = () => {
    const repo = new TestRepo()
    repo.write("text", "one\ntwo\n")
    repo.write("moved", "the same\n".repeat(20))
    repo.write("picture", Buffer.from([0, 1, 2, 3]))
    repo.write("script", "#!/bin/sh\n")
    repo.write(".gitignore", "ignored\n")
    const base = repo.commit("first")
    repo.write("text", "one\nthree\n")
    repo.git("mv", "moved", "there")
    repo.write("picture", Buffer.from([0, 255, 254, 3]))
    chmodSync(join(repo.root, "script"), 0o755)
    repo.write("ignored", "x")
    repo.write(NEWLINE, "untracked\n")
    repo.write(INVALID, Buffer.from([0xe9, 0x0a]))
    repo.write("new picture", Buffer.from([0, 9]))
    return { repo, base }
  }

  it("makes the same tree of the base when it is applied, with binary and untracked files", async () => {
    const { repo, base } = changed()
    const { get } = await serveGit(repo)
    const before = repo.git("status", "--porcelain")
    const { status, bytes } = await get("diff?repo=shop")
    expect(status).toBe(200)
    expect(repo.git("status", "--porcelain")).toBe(before)
    repo.git("worktree", "add", "--quiet", "--detach", "../copy", base)
    const inCopy = { cwd: join(repo.workspace, "copy"), env: repo.environment, ...USER }
    execFileSync("git", ["apply", "--index"], { ...inCopy, input: bytes })
    const tree = execFileSync("git", ["write-tree"], inCopy)
    repo.git("add", "--all")
    expect(String(tree).trim()).toBe(repo.git("write-tree"))
  })

  it("has its files listed with the numbers of changed lines", async () => {
    const { repo } = changed()
    const { json } = await serveGit(repo)
    const { files } = GitChanges.parse(await json("changes?repo=shop"))
    const found = new Map(files.map((file) => [JSON.stringify(file.path), file]))
    const file = (path: unknown) => found.get(JSON.stringify(path))
    expect(file("text")).toMatchObject({ status: "modified", insertions: 1, deletions: 1 })
    expect(file("there")).toMatchObject({ status: "renamed", from: "moved", insertions: 0 })
    expect(file("picture")).toMatchObject({ status: "modified", binary: true })
    expect(file("script")).toMatchObject({ oldMode: "100644", newMode: "100755" })
    expect(file(NEWLINE)).toMatchObject({ status: "added", insertions: 1, binary: false })
    expect(file(invalid)).toMatchObject({ status: "added", insertions: 1 })
    expect(file("new picture")).toMatchObject({ status: "added", binary: true })
    expect(found.size).toBe(7)
  })

  it("can be of one file, whatever its name, and of two commits", async () => {
    const { repo, base } = changed()
    const { get, json } = await serveGit(repo)
    const of = async (path: string | { base64: string }) => {
      const { bytes } = await get(`diff?${fileQuery({ repo: "shop", path })}`)
      return bytes.toString("latin1")
    }
    expect(await of(NEWLINE)).toContain("+untracked")
    expect(await of(invalid)).toContain("+\u00e9\n")
    expect((await of(invalid)).match(/^diff --git/gm)).toHaveLength(1)
    expect(await of("no such file")).toBe("")
    const head = repo.commit("second")
    repo.write("later", "x")
    expect(
      GitChanges.parse(await json(`changes?repo=shop&base=${base}&head=${head}`)).files,
    ).toHaveLength(7)
    expect(GitChanges.parse(await json("changes?repo=shop&base=HEAD~1")).files).toHaveLength(8)
    for (const wrong of ["nothing", "HEAD~9"])
      expect(await json(`diff?repo=shop&base=${wrong}`)).toMatchObject({ code: "repo.ref_unknown" })
    for (const wrong of ["--output=x", "a..b", "a b"])
      expect((await get(`diff?repo=shop&base=${encodeURIComponent(wrong)}`)).status).toBe(400)
  })

  it("is of everything before the first commit, from a folder of the repo as well", async () => {
    const repo = new TestRepo()
    const { json } = await serveGit(repo)
    repo.git("config", "diff.noprefix", "true")
    repo.git("config", "diff.external", "/bin/false")
    mkdirSync(join(repo.root, "folder"))
    if (USER) execFileSync("chown", [`${USER.uid}:${USER.gid}`, join(repo.root, "folder")])
    repo.write("folder/file", "x\n")
    const { files } = GitChanges.parse(await json("changes?repo=shop%2Ffolder"))
    expect(files).toMatchObject([{ path: "folder/file", status: "added" }])
  })

  it("that is large ends with its reader, and leaves no file behind", async () => {
    const repo = new TestRepo()
    const { path } = await serveGit(repo, { TMPDIR: repo.workspace })
    repo.write("large", "line\n".repeat(8 * 1024 * 1024))
    const sent = request({
      socketPath: path,
      path: "/git/diff?repo=shop",
      headers: AUTHORIZED,
    })
    const response = await new Promise<NodeJS.ReadableStream & { destroy(): void }>((resolve) =>
      sent.on("response", resolve).end(),
    )
    await new Promise((resolve) => response.once("data", resolve))
    expect(readdirSync(repo.workspace)).toHaveLength(2)
    response.destroy()
    await until(() => readdirSync(repo.workspace).length === 1)
  })
})

describe("git log", () => {
  it("lists commits, the newest first, and says when it is cut", async () => {
    const repo = new TestRepo()
    const { json } = await serveGit(repo)
    const log = async (query: string) => GitLog.parse(await json(`log?repo=shop${query}`))
    expect(await log("")).toEqual({ commits: [], isCut: false })
    repo.write("a", "1")
    const first = repo.commit("one\n\nwith a body\nof two lines")
    repo.write("b", "1")
    const second = repo.commit("twö")
    const { commits, isCut } = await log("")
    expect([commits.map(({ id }) => id), isCut]).toEqual([[second, first], false])
    expect(commits[1]).toMatchObject({
      parents: [],
      message: "one\n\nwith a body\nof two lines\n",
      author: { name: "Ada", email: "ada@example.com" },
    })
    expect(commits[0]).toMatchObject({ parents: [first], message: "twö\n" })
    expect(await log("&limit=1")).toMatchObject({ commits: [{ id: second }], isCut: true })
    expect((await log(`&base=${first}`)).commits).toHaveLength(1)
    expect((await log("&path=a")).commits).toMatchObject([{ id: first }])
  })
})

describe("git commit", () => {
  it("commits the named files as the user, and returns the commit", async () => {
    const repo = new TestRepo()
    const { post, json } = await serveGit(repo)
    for (const name of ["staged", "other", NEWLINE]) repo.write(name, name)
    repo.write(INVALID, "x")
    repo.git("add", "staged")
    const paths = [NEWLINE, invalid]
    const author = { name: "Grace", email: "grace@example.com" }
    const made = await post({ repo: "shop", message: "some\n\nof it", paths, author })
    expect(made.status, JSON.stringify(made.body)).toBe(201)
    expect(GitCommit.parse(made.body)).toMatchObject({ message: "some\n\nof it\n", author })
    const files = repo.git("ls-tree", "--name-only", "-z", "HEAD").split("\0").filter(Boolean)
    expect(files).toHaveLength(2)
    expect(GitStatus.parse(await json("status?repo=shop")).files).toHaveLength(2)

    const all = await post({ repo: "shop", message: "the rest", all: true })
    expect(all.body).toMatchObject({ author: { name: "agent" }, committer: { name: "agent" } })
    expect(repo.git("status", "--porcelain")).toBe("")
    if (USER !== undefined)
      expect(statSync(join(repo.root, ".git/COMMIT_EDITMSG")).uid).toBe(USER.uid)
    expect(await post({ repo: "shop", message: "again", all: true })).toMatchObject({
      status: 409,
      body: { code: "git.nothing_to_commit" },
    })
  })

  it("takes the staged files, under the name in git's configuration, and heeds the repo's hooks", async () => {
    const repo = new TestRepo()
    const { post } = await serveGit(repo)
    repo.git("config", "user.name", "Ada")
    repo.git("config", "user.email", "ada@example.com")
    repo.write("file", "x")
    repo.git("add", "file")
    const hook = join(repo.root, ".git/hooks/pre-commit")
    mkdirSync(join(repo.root, ".git/hooks"), { recursive: true })
    writeFileSync(hook, "#!/bin/sh\necho 'no tests' >&2\nexit 1\n", { mode: 0o755 })
    expect(await post({ repo: "shop", message: "x" })).toMatchObject({
      body: { code: "repo.git_failed", message: expect.stringContaining("no tests") },
    })
    // A process that the hook leaves is ended; one that hides from the supervisor holds up nothing.
    writeFileSync(
      hook,
      "#!/bin/sh\nsleep 1000 & echo $! > ../left\n(setsid env -i /bin/sleep 3 &)\n",
    )
    const author = { name: "Grace", email: "grace@example.com" }
    expect(await post({ repo: "shop", message: "x", author })).toMatchObject({
      status: 201,
      body: { author, committer: { name: "Ada" } },
    })
    const left = Number(readFileSync(join(repo.workspace, "left"), "utf8"))
    await until(() => [undefined, "Z"].includes(readProcess(left)?.state))
  })

  it("refuses a malformed request", async () => {
    const repo = new TestRepo()
    const { post } = await serveGit(repo)
    const wrong = [
      {},
      { repo: "shop", message: " " },
      { repo: "shop", message: "x", author: { name: "<", email: "a" } },
      { repo: "shop", message: "x", paths: [] },
    ]
    for (const body of wrong) expect(await post(body)).toMatchObject({ status: 400 })
  })
})

describe("git bundle", () => {
  it("holds the commits that the base lacks, and is left out when it lacks none", async () => {
    const repo = new TestRepo()
    const { get, json } = await serveGit(repo)
    expect(await json("bundle?repo=shop")).toMatchObject({ code: "repo.ref_unknown" })
    repo.write("file", "one")
    const first = repo.commit("first")
    const file = join(repo.workspace, "bundle")
    writeFileSync(file, (await get("bundle?repo=shop")).bytes)
    execFileSync("git", ["clone", "--quiet", file, join(repo.workspace, "clone")])
    repo.write("file", "two")
    const second = repo.commit("second")
    writeFileSync(file, (await get(`bundle?repo=shop&base=${first}&ref=main`)).bytes)
    const inClone = { cwd: join(repo.workspace, "clone"), encoding: "utf8" } as const
    execFileSync("git", ["fetch", "--quiet", file, "main"], inClone)
    expect(execFileSync("git", ["rev-parse", "FETCH_HEAD"], inClone).trim()).toBe(second)
    expect(await get("bundle?repo=shop&base=HEAD")).toMatchObject({ status: 204 })
    expect(existsSync(join(repo.root, ".git/index.lock"))).toBe(false)
  })
})
