import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { chmodSync, createWriteStream, readdirSync, readlinkSync, writeFileSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { type BundleWanted, sendBundle } from "./bundle.ts"
import { commit, git, makeRepo, temporaryDirectory } from "./testing/host-repos.ts"

const never = new AbortController().signal

/** Sends a bundle to a file. */
const send = async (wanted: Partial<BundleWanted> & { path: string }) => {
  const file = join(temporaryDirectory(), "bundle")
  const sent = await sendBundle(
    { ref: undefined, have: [], ...wanted },
    { send: (bundle) => pipeline(bundle, createWriteStream(file)), signal: never },
  )
  const heads = () => git("/", "bundle", "list-heads", file).split("\n").sort()
  return { ...sent, file, heads }
}

const clone = (file: string) => {
  const path = join(temporaryDirectory(), "clone")
  git("/", "clone", "--quiet", file, path)
  return path
}

describe("a bundle of a repo on the host", () => {
  it("holds the commits of HEAD, and can be cloned", async () => {
    const { path, second } = makeRepo()
    const sent = await send({ path })
    expect(sent).toMatchObject({ commit: second, branch: "main", isBundled: true })
    expect(sent.heads()).toEqual([`${second} HEAD`, `${second} refs/heads/main`])
    expect(git(clone(sent.file), "log", "--format=%s")).toBe("second\nfirst")
  })

  it.each<[string, (repo: ReturnType<typeof makeRepo>) => string, string[], string | undefined]>([
    ["a branch", () => "main", ["refs/heads/main"], "main"],
    ["a full ref", () => "refs/pull/7/head", ["refs/pull/7/head"], undefined],
    ["a tag", () => "v1", ["refs/tags/v1"], undefined],
    ["a commit that no branch holds", ({ path }) => dangling(path), [], undefined],
  ])("is made for %s", async (_, refOf, names, branch) => {
    const repo = makeRepo()
    git(repo.path, "update-ref", "refs/pull/7/head", repo.first)
    git(repo.path, "tag", "-a", "-m", "v1", "v1", repo.first)
    const ref = refOf(repo)
    const sent = await send({ path: repo.path, ref })
    expect(sent.commit).toBe(git(repo.path, "rev-parse", `${ref}^{commit}`))
    expect(sent.branch).toBe(branch)
    expect(
      sent
        .heads()
        .map((line) => line.split(" ")[1])
        .sort(),
    ).toEqual(["HEAD", ...names])
    expect(git(clone(sent.file), "rev-parse", "HEAD")).toBe(sent.commit)
  })

  const dangling = (path: string) => {
    const lost = commit(path, "lost")
    git(path, "reset", "--quiet", "--hard", "HEAD~1")
    return lost
  }

  it("holds only missing commits, and is not made when none is missing", async () => {
    const { path, first, second } = makeRepo()
    const unknown = "0123456789".repeat(4)
    const { file } = await send({ path, have: [unknown, first] })
    expect((await readFile(file, "latin1")).split("\n").slice(1, 2)[0]).toMatch(`-${first}`)
    const sent = await send({ path, have: [unknown, second] })
    expect(sent).toMatchObject({ commit: second, branch: "main", isBundled: false })
  })

  it("is not made when the repo went back to a commit that the sandbox has", async () => {
    const { path, first, second } = makeRepo()
    git(path, "reset", "--quiet", "--hard", first)
    expect(await send({ path, have: [second] })).toMatchObject({ commit: first, isBundled: false })
  })

  it("is made of a bare repo, of a linked worktree, of sha256 and of a path with odd letters", async () => {
    const { path, second } = makeRepo()
    const bare = join(temporaryDirectory(), 'a "bare:\\ ü # repo')
    git("/", "clone", "--quiet", "--bare", path, bare)
    const linked = join(temporaryDirectory(), "linked")
    git(path, "worktree", "add", "--quiet", "-b", "side", linked)
    expect(await send({ path: bare })).toMatchObject({ commit: second, branch: "main" })
    expect(await send({ path: linked })).toMatchObject({ commit: second, branch: "side" })
    const wide = makeRepo("--object-format=sha256")
    const sent = await send({ path: wide.path, have: [wide.first] })
    expect(sent).toMatchObject({ commit: wide.second, isBundled: true })
  })

  it.each<[string, string, (path: string) => string]>([
    ["is not there", "repo.host_unusable", (path) => `${path}-not`],
    ["is a file", "repo.host_unusable", (path) => join(path, ".git", "HEAD")],
    ["is a directory inside of one", "repo.host_unusable", (path) => join(path, ".git", "refs")],
    ["is no repo", "repo.host_unusable", (path) => dirname(path)],
    ["is empty", "repo.ref_unknown", () => emptyRepo()],
  ])("is refused for a path that %s", async (_, code, placeOf) => {
    const { path } = makeRepo()
    await expect(send({ path: placeOf(path) })).rejects.toMatchObject({ code })
  })

  const emptyRepo = () => {
    const path = join(temporaryDirectory(), "empty")
    git("/", "init", "--quiet", path)
    return path
  }

  it("tells the author that the repo's settings name, without an address of two lines", async () => {
    const { path } = makeRepo()
    git(path, "config", "user.name", "Ada Lovelace")
    git(path, "config", "user.email", "ada@example.test\nx")
    const sent = await send({ path })
    expect(sent.authorName).toBe("Ada Lovelace")
    expect(sent.authorEmail).toBeUndefined()
  })

  it("is refused for a ref that does not exist, which the error names", async () => {
    const { path } = makeRepo()
    await expect(send({ path, ref: "gone" })).rejects.toMatchObject({
      code: "repo.ref_unknown",
      details: { ref: "gone" },
    })
  })

  it("fails with git's own words when the repo is damaged, and never ends as if it were whole", async () => {
    const { path, first } = makeRepo()
    const object = join(path, ".git", "objects", first.slice(0, 2), first.slice(2))
    chmodSync(object, 0o600)
    writeFileSync(object, "damaged")
    let didEnd = false
    const take = async (bundle: Readable) => {
      bundle.on("end", () => {
        didEnd = true
      })
      await bundle.forEach(() => {})
    }
    await expect(
      sendBundle({ path, ref: undefined, have: [] }, { send: take, signal: never }),
    ).rejects.toMatchObject({
      code: "repo.bundle_failed",
      details: { gitSaid: expect.stringContaining(first) },
    })
    expect(didEnd).toBe(false)
  })

  it("is given up with its caller, or past its deadline, and leaves no process and no file", async () => {
    const { path } = makeRepo()
    writeFileSync(join(path, "large"), randomBytes(8_000_000))
    git(path, "add", "large")
    commit(path, "large")
    const own = temporaryDirectory()
    vi.stubEnv("TMPDIR", own)
    onTestFinished(() => void vi.unstubAllEnvs())
    const wanted = { path, ref: undefined, have: [] }
    const stop = new AbortController()
    // Reads a part, so that git waits in the middle.
    const read = async (bundle: Readable) => {
      const chunks = bundle[Symbol.asyncIterator]()
      await chunks.next()
      expect(workingIn(own)).not.toEqual([])
      stop.abort(new Error("enough"))
      while (!(await chunks.next()).done);
    }
    await expect(sendBundle(wanted, { send: read, signal: stop.signal })).rejects.toThrow("enough")
    const drain = async (bundle: Readable) => await bundle.forEach(() => {})
    await expect(
      sendBundle(wanted, { send: drain, signal: never, deadlineMs: 1 }),
    ).rejects.toMatchObject({ code: "deadline.exceeded" })
    expect(readdirSync(own)).toEqual([])
    await expect.poll(() => workingIn(own)).toEqual([])
  })

  /** The processes whose working directory lies in this directory. */
  const workingIn = (directory: string) =>
    readdirSync("/proc").filter((pid) => {
      try {
        return /^\d+$/.test(pid) && readlinkSync(`/proc/${pid}/cwd`).startsWith(directory)
      } catch {
        return false
      }
    })

  requires("root").it(
    "runs git as the repo's owner, who cannot reach a repo in a closed directory of root's",
    async () => {
      const { path, second } = makeRepo()
      chmodSync(dirname(path), 0o755)
      execFileSync("chown", ["-R", "12345:12345", path])
      const sent = await send({ path })
      expect(sent.commit).toBe(second)
      const closed = makeRepo()
      chmodSync(dirname(closed.path), 0o700)
      execFileSync("chown", ["-R", "12345:12345", closed.path])
      await expect(send({ path: closed.path })).rejects.toMatchObject({
        code: "repo.host_unusable",
      })
    },
  )

  requires("root").it(
    "is made of another user's repo also under a strict umask of the server",
    async () => {
      const { path, second } = makeRepo()
      chmodSync(dirname(path), 0o755)
      execFileSync("chown", ["-R", "12345:12345", path])
      const before = process.umask(0o077)
      onTestFinished(() => void process.umask(before))
      expect(await send({ path })).toMatchObject({ commit: second, isBundled: true })
      expect(await send({ path, ref: second })).toMatchObject({ commit: second, isBundled: true })
    },
  )
})
