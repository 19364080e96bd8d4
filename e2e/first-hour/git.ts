import { execFile, execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, onTestFinished } from "vitest"
import { servePrivateGit } from "../asks/private-git.ts"
import { makeRepo } from "../boot/stage.ts"
import { type Case, commandsOn, type Server } from "./journey.ts"

const UP = ["--network", "none"]
const PASSWORD = "a-pass-word-of-the-remote"

export const gitJourneys = (server: () => Server): readonly Case[] => {
  const { berth, done, inside } = commandsOn(server)
  const at = (...names: readonly string[]) => join(server().base, ...names)
  const git = (repo: string, ...args: readonly string[]) =>
    execFileSync("git", ["-C", repo, ...args], { encoding: "utf8" }).trim()
  const commit = (repo: string, file: string, text: string) => {
    writeFileSync(join(repo, file), text)
    git(repo, "add", ".")
    git(repo, "-c", "user.name=Test", "-c", "user.email=test@example.test", "commit", "-qm", file)
  }
  const up = (repo: string, ...flags: readonly string[]) => done("up", repo, ...UP, ...flags)
  const removeInTheEnd = (name: string) => onTestFinished(async () => void (await done("rm", name)))

  return [
    {
      title: "`berth up` tells of uncommitted changes, and brings them with --dirty",
      work: async () => {
        removeInTheEnd("dirty")
        const repo = makeRepo(at("dirty"), { "README.md": "one\n" })
        writeFileSync(join(repo, "README.md"), "two\n")
        writeFileSync(join(repo, "new.txt"), "new\n")
        const { stderr } = await up(repo)
        expect(stderr).toContain("2 changed files are not in the sandbox; --dirty brings them")
        expect(await inside("dirty", "cat", "README.md")).toBe("one")
        const brought = await up(repo, "--dirty")
        expect(brought.stderr).not.toContain("not in the sandbox")
        expect(await inside("dirty", "cat", "README.md", "new.txt")).toBe("two\nnew")
      },
    },

    {
      title:
        "a sandbox has a shallow clone as shallow, gets a partial clone of a private HTTP remote whole, and keeps it when it is no longer named",
      work: async () => {
        removeInTheEnd("two")
        mkdirSync(at("served"))
        const source = makeRepo(at("served", "source"), { "README.md": "one\n" })
        commit(source, "README.md", "two\n")
        commit(source, "last.txt", "last\n")
        git(source, "config", "uploadpack.allowFilter", "true")
        git(source, "config", "uploadpack.allowAnySHA1InWant", "true")
        const account = { username: "u", password: PASSWORD }
        const address = await servePrivateGit(at("served"), account, () => {})
        const url = `${address.replace("//", `//u:${PASSWORD}@`)}/source`
        const clone = (how: string, name: string) =>
          promisify(execFile)("git", ["clone", "-q", how, url, at(name)])
        await Promise.all([clone("--depth=1", "shallow"), clone("--filter=blob:none", "partial")])

        await up(at("shallow"), "--name", "two")
        const look = "git rev-list --count HEAD; cat README.md last.txt; git status --porcelain"
        expect(await inside("two", "sh", "-c", `${look}; echo mine > own.txt`)).toBe("1\ntwo\nlast")

        const sandbox = await server()
          .client()
          .sandboxes.create({
            workspace: {
              slug: "two",
              network: { kind: "none" },
              repos: [{ url: at("shallow") }, { url: at("partial") }],
            },
          })
        await sandbox.ready()
        const whole =
          "cat own.txt; cd ../partial; git rev-list --count HEAD; git show HEAD~2:README.md; git fsck --connectivity-only"
        expect(await inside("two", "sh", "-c", `cd /workspace/shallow; ${whole}`)).toBe(
          "mine\n3\none",
        )
        const found = await berth("exec", "two", "--", "grep", "-rlF", PASSWORD, "/workspace")
        expect(found).toMatchObject({ status: 1, stdout: "" })
        expect(server().log.filter((line) => line.includes(PASSWORD))).toEqual([])

        const { stderr } = await up(at("shallow"), "--name", "two")
        expect(stderr).toContain(
          "warning: partial: the workspace does not name it any more; its files stay\n",
        )
        expect(await inside("two", "cat", "own.txt", "/workspace/partial/README.md")).toBe(
          "mine\ntwo",
        )
      },
    },

    {
      title:
        "a sandbox has submodules with relative URLs, its commits are the person's on the host, and fetch and apply bring its work back",
      work: async () => {
        removeInTheEnd("work")
        makeRepo(at("lib"), { "lib.txt": "lib\n" })
        const repo = makeRepo(at("work"), { "README.md": "one\n" })
        git(repo, "config", "user.name", "Ada Lovelace")
        git(repo, "config", "user.email", "ada@example.test")
        git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../lib")
        git(repo, "commit", "-qm", "lib")
        const told = await up(repo)
        expect(told.stderr).not.toContain("warning")
        const look = "cat lib/lib.txt; git status --porcelain; git -C lib rev-parse HEAD"
        expect(await inside("work", "sh", "-c", look)).toBe(
          `lib\n${git(at("lib"), "rev-parse", "HEAD")}`,
        )

        await inside(
          "work",
          "sh",
          "-c",
          "echo two > README.md && git commit -qam second && echo three > README.md && echo new > new.txt",
        )
        const verbs = ["push", "push origin HEAD", "pull", "fetch"]
        const tries = verbs.map((verb) => `git ${verb} 2>&1 && echo it worked; echo ====`)
        const said = (await inside("work", "sh", "-c", tries.join("\n"))).split("====\n")
        expect(said).toHaveLength(verbs.length)
        for (const words of said) {
          expect(words).toContain("berth fetch WORKSPACE")
          expect(words).toContain("berth apply WORKSPACE")
          expect(words).not.toMatch(/remote helper|it worked/)
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
    },
  ]
}
