import { execFileSync } from "node:child_process"
import {
  chmodSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { pipeline } from "node:stream/promises"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { sendBundle } from "./bundle.ts"
import { promisorIn } from "./promisor.ts"
import { git, makeRepo, temporaryDirectory } from "./testing/host-repos.ts"

const NOBODY = 65_534

/** Makes a repo with two versions of a file, and a clone of it without the objects that the filter leaves out. */
const makePartial = (filter: string) => {
  const { path: upstream } = makeRepo()
  git(upstream, "config", "uploadpack.allowFilter", "true")
  git(upstream, "config", "uploadpack.allowAnySHA1InWant", "true")
  for (const text of ["one\n", "two\n"]) {
    mkdirSync(join(upstream, "src"), { recursive: true })
    writeFileSync(join(upstream, "src/file"), text)
    git(upstream, "add", "--all")
    git(upstream, "commit", "--quiet", "-m", text)
  }
  const path = join(temporaryDirectory(), "partial")
  git("/", "clone", "--quiet", `--filter=${filter}`, `file://${upstream}`, path)
  return { upstream, path }
}

const send = async (path: string) => {
  const file = join(temporaryDirectory(), "bundle")
  const to = (bundle: NodeJS.ReadableStream) => pipeline(bundle, createWriteStream(file))
  const wanted = { path, ref: undefined, have: [] }
  await sendBundle(wanted, { send: to, signal: AbortSignal.timeout(60_000) })
  const clone = join(temporaryDirectory(), "clone")
  git("/", "clone", "--quiet", file, clone)
  return clone
}

/** A temporary directory of the test's own, to see that no lens is left. */
const ownTemporary = () => {
  const own = temporaryDirectory()
  chmodSync(own, 0o755)
  vi.stubEnv("TMPDIR", own)
  onTestFinished(() => void vi.unstubAllEnvs())
  return own
}

const objectsOf = (path: string) => readdirSync(join(path, ".git/objects/pack")).sort()

describe("a partial clone on the host", () => {
  it.each(["blob:none", "tree:0"])(
    "is sent whole with the filter %s, and nothing is written into it",
    async (filter) => {
      const { path } = makePartial(filter)
      const before = objectsOf(path)
      const own = ownTemporary()
      const clone = await send(path)
      expect(git(clone, "show", "HEAD~1:src/file")).toBe("one")
      expect(git(clone, "rev-list", "--objects", "--missing=print", "--all")).not.toContain("?")
      expect(objectsOf(path)).toEqual(before)
      expect(readdirSync(own).filter((name) => name.startsWith("berth-bundle-"))).toEqual([])
    },
  )

  it("is refused with a hint where its remote cannot be reached", async () => {
    const { path, upstream } = makePartial("blob:none")
    renameSync(upstream, `${upstream}-gone`)
    await expect(send(path)).rejects.toMatchObject({
      code: "repo.promisor_failed",
      message: expect.stringContaining("remote origin"),
      hint: expect.stringContaining("git fetch --refetch --no-filter"),
    })
  })

  it("runs no program that its remote's URL or its settings name", async () => {
    const { path } = makePartial("blob:none")
    const trap = join(temporaryDirectory(), "ran")
    git(path, "config", "remote.origin.url", `ext::sh -c "touch% ${trap}"`)
    git(path, "config", "protocol.ext.allow", "always")
    git(path, "config", "protocol.allow", "always")
    await expect(send(path)).rejects.toMatchObject({ code: "repo.promisor_failed" })
    git(path, "config", "remote.origin.url", "ssh://127.0.0.1:1/nowhere")
    git(path, "config", "core.sshCommand", `touch ${trap};`)
    git(path, "config", "remote.origin.uploadpack", `touch ${trap};`)
    await expect(send(path)).rejects.toMatchObject({ code: "repo.promisor_failed" })
    expect(existsSync(trap)).toBe(false)
  })

  it("fails without telling the token of its remote's URL", async () => {
    const { path } = makePartial("blob:none")
    git(path, "config", "remote.origin.url", "http://me:s3cret@127.0.0.1:1/web.git")
    const thrown = await send(path).catch((thrown: unknown) => thrown)
    expect(thrown).toMatchObject({ code: "repo.promisor_failed" })
    expect(JSON.stringify(thrown) + String(thrown)).not.toContain("s3cret")
  })

  requires("root").it("is sent whole where it is another user's, and no lens is left", async () => {
    const { path, upstream } = makePartial("blob:none")
    for (const tree of [path, upstream]) {
      chmodSync(join(tree, ".."), 0o755)
      execFileSync("chown", ["-R", `${NOBODY}:${NOBODY}`, join(tree, "..")])
    }
    const own = ownTemporary()
    const clone = await send(path)
    expect(git(clone, "show", "HEAD~1:src/file")).toBe("one")
    expect(readdirSync(own).filter((name) => name.startsWith("berth-bundle-"))).toEqual([])
  })
})

it("finds the promisor remote, and resolves its path from the repo", () => {
  const listed = ["remote.a.url\n../up", "remote.b.url\nhttps://h/x", "remote.b.promisor\ntrue"]
  expect(promisorIn(listed.join("\0"), "/srv/repo")).toEqual({ remote: "b", url: "https://h/x" })
  const older = [...listed.slice(0, 2), "extensions.partialclone\na"].join("\0")
  expect(promisorIn(older, "/srv/repo")).toEqual({ remote: "a", url: "/srv/up" })
  expect(promisorIn("", "/srv/repo")).toBeUndefined()
})
