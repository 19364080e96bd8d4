import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import { makeRepo } from "../boot/stage.ts"
import { openServer } from "../sandboxes/server.ts"

/** A toolbox is built, and sandboxes boot beside other tests. */
const STAGE_DEADLINE_MS = 180_000

const UP = ["--network", "none"]

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("git, embedded", () => {
  let server: Awaited<ReturnType<typeof openServer>>
  const at = (...names: readonly string[]) => join(server.base, ...names)
  const berth = async (...args: readonly string[]) => {
    const { stdout, stderr, status } = await server.berth(args)
    return { stdout: stdout.toString(), stderr, status }
  }
  const done = async (...args: readonly string[]) => {
    const told = await berth(...args)
    expect(told, `berth ${args.join(" ")}`).toMatchObject({ status: 0 })
    return told
  }
  const inside = async (name: string, ...command: readonly string[]) =>
    (await done("exec", name, "--", ...command)).stdout.trim()
  const git = (repo: string, ...args: readonly string[]) =>
    execFileSync("git", ["-C", repo, ...args], { encoding: "utf8" }).trim()
  const commit = (repo: string, file: string, text: string) => {
    writeFileSync(join(repo, file), text)
    git(repo, "add", ".")
    git(repo, "-c", "user.name=Test", "-c", "user.email=test@example.test", "commit", "-qm", file)
  }
  const made: string[] = []
  const up = async (repo: string, ...flags: readonly string[]) => {
    const told = await done("up", repo, ...UP, ...flags)
    made.push(told.stdout.trim())
    return told
  }
  beforeAll(async () => {
    server = await openServer()
  }, STAGE_DEADLINE_MS)
  afterEach(async () => {
    for (const id of made.splice(0)) await done("rm", id)
  }, STAGE_DEADLINE_MS)
  afterAll(async () => await server?.close(), STAGE_DEADLINE_MS)

  it(
    "tells uncommitted changes on up, and brings them with --dirty",
    async () => {
      const repo = makeRepo(at("dirty"), { "README.md": "one\n" })
      writeFileSync(join(repo, "README.md"), "two\n")
      writeFileSync(join(repo, "new.txt"), "new\n")
      const { stderr } = await up(repo)
      expect(stderr).toContain("2 changed files are not in the sandbox; --dirty brings them")
      expect(await inside("dirty", "cat", "README.md")).toBe("one")
      const brought = await done("up", repo, ...UP, "--dirty")
      expect(brought.stderr).not.toContain("not in the sandbox")
      expect(await inside("dirty", "cat", "README.md", "new.txt")).toBe("two\nnew")
    },
    STAGE_DEADLINE_MS,
  )

  describe("a clone of a clone", () => {
    const source = () => {
      const repo = makeRepo(at("source"), { "README.md": "one\n" })
      commit(repo, "README.md", "two\n")
      commit(repo, "last.txt", "last\n")
      git(repo, "config", "uploadpack.allowFilter", "true")
      git(repo, "config", "uploadpack.allowAnySHA1InWant", "true")
      return `file://${repo}`
    }
    let url: string
    beforeAll(() => {
      url = source()
    })

    it(
      "is as shallow as the one on the host",
      async () => {
        git(server.base, "clone", "-q", "--depth=1", url, at("shallow"))
        await up(at("shallow"))
        expect(await inside("shallow", "git", "rev-list", "--count", "HEAD")).toBe("1")
        expect(await inside("shallow", "cat", "README.md", "last.txt")).toBe("two\nlast")
        expect(await inside("shallow", "git", "status", "--porcelain")).toBe("")
      },
      STAGE_DEADLINE_MS,
    )

    it(
      "is whole where the one on the host is partial",
      async () => {
        git(server.base, "clone", "-q", "--filter=blob:none", url, at("partial"))
        await up(at("partial"))
        expect(await inside("partial", "git", "rev-list", "--count", "HEAD")).toBe("3")
        expect(await inside("partial", "git", "show", "HEAD~2:README.md")).toBe("one")
        expect(await inside("partial", "git", "fsck", "--connectivity-only")).toBe("")
      },
      STAGE_DEADLINE_MS,
    )
  })

  it(
    "commits inside as the person on the host, and brings the work back by fetch and apply",
    async () => {
      const repo = makeRepo(at("work"), { "README.md": "one\n" })
      git(repo, "config", "user.name", "Ada Lovelace")
      git(repo, "config", "user.email", "ada@example.test")
      await up(repo)
      await inside("work", "sh", "-c", "echo two > README.md && git commit -qam second")
      await inside("work", "sh", "-c", "echo three > README.md && echo new > new.txt")

      for (const words of [["push"], ["push", "origin", "HEAD"], ["pull"], ["fetch"]]) {
        const told = await berth("exec", "work", "--", "git", ...words)
        expect(told.status, `git ${words.join(" ")}`).not.toBe(0)
        expect(told.stderr).toContain("berth fetch WORKSPACE")
        expect(told.stderr).toContain("berth apply WORKSPACE")
        expect(told.stderr).not.toContain("remote helper")
      }

      const fetched = await done("fetch", "work", "--into", repo)
      expect(fetched.stdout).toBe("berth/work/main\n")
      const show = ["log", "-1", "--format=%an <%ae> %s", "berth/work/main"]
      expect(git(repo, ...show)).toBe("Ada Lovelace <ada@example.test> second")
      expect(readFileSync(join(repo, "README.md"), "utf8")).toBe("one\n")
      git(repo, "merge", "-q", "--ff-only", "berth/work/main")

      const applied = await done("apply", "work", "--into", repo)
      expect(applied.stdout.trim().split("\n").sort()).toEqual(["README.md", "new.txt"])
      expect(readFileSync(join(repo, "README.md"), "utf8")).toBe("three\n")
      expect(readFileSync(join(repo, "new.txt"), "utf8")).toBe("new\n")
    },
    STAGE_DEADLINE_MS,
  )

  it("refuses a directory that is no repo, and leaves nothing of it", async () => {
    mkdirSync(at("plain"))
    const refused = await berth("up", at("plain"), ...UP)
    expect(refused).toMatchObject({ status: 1, stdout: "" })
    expect(refused.stderr).toContain("the repo on the host cannot be used")
    expect((await done("ps")).stdout).toBe("There is no sandbox: berth up makes one.\n")
    await expect(server.client().workspaces.get("plain")).rejects.toMatchObject({
      code: "not_found",
    })
  })

  it(
    "clones a second repo into a workspace in use, and says on up that it stays where it is no longer named",
    async () => {
      const first = makeRepo(at("first"), { "README.md": "first\n" })
      const second = makeRepo(at("second"), { "README.md": "second\n" })
      await up(first, "--name", "two")
      await inside("two", "sh", "-c", "echo mine > own.txt")
      const workspace = (...urls: readonly string[]) => ({
        slug: "two",
        network: { kind: "none" as const },
        repos: urls.map((url) => ({ url })),
      })
      const create = async (...urls: readonly string[]) => {
        const sandbox = await server.client().sandboxes.create({ workspace: workspace(...urls) })
        made.splice(0, made.length, sandbox.id)
        return await sandbox.ready()
      }
      await create(first, second)
      const show = ["cat", "/workspace/first/own.txt", "/workspace/second/README.md"]
      expect(await inside("two", ...show)).toBe("mine\nsecond")
      made.splice(0)
      const { stderr } = await up(first, "--name", "two")
      expect(stderr).toContain(
        "warning: second: the workspace does not name it any more; its files stay\n",
      )
      expect(await inside("two", ...show)).toBe("mine\nsecond")
    },
    STAGE_DEADLINE_MS,
  )
})
