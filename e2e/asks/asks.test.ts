import { once } from "node:events"
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Readable } from "node:stream"
import { hostRepos } from "@berth/supervisor/bridge/host-repos"
import { describe, expect, it } from "vitest"
import { bothEnds } from "./both-ends.ts"
import { expectNoTrace, openGitInside, storePassword } from "./git-inside.ts"
import { processesWith } from "./leaks.ts"
import { git, makeRepo, servePrivateGit } from "./private-git.ts"

const PASSWORD = "a-very-secret-pass-word"
const never = new AbortController().signal

describe("a private repo", () => {
  const prepare = async () => {
    const ends = await bothEnds()
    const root = join(ends.directory, "served")
    mkdirSync(root)
    const { commit } = makeRepo(join(root, "mine"))
    makeRepo(join(root, "other"))
    const seen: string[][] = []
    const url = await servePrivateGit(root, { username: "u", password: PASSWORD }, () =>
      seen.push(processesWith(PASSWORD)),
    )
    storePassword(ends, [url], PASSWORD)
    const git = await openGitInside(ends)
    // The user's own git settings would store every password.
    writeFileSync(join(git.home, ".gitconfig"), `[credential]\n\thelper = store\n`)
    ends.startServer(await ends.answers([{ directory: "mine", url: `${url}/mine` }]))
    const clone = (name: string) =>
      git.run(["clone", "--quiet", `${url}/${name}`, join(ends.inside, name)])
    return { ...ends, clone, commit, seen, url }
  }

  it("is cloned by git with its helper, and the password is left in no process, file, event or log", async () => {
    const ends = await prepare()
    expect(await ends.clone("mine")).toEqual({ status: 0, said: "" })
    expect(git(join(ends.inside, "mine"), "rev-parse", "HEAD")).toBe(ends.commit)
    await expectNoTrace(ends, PASSWORD)
  })

  it("of another workspace is refused, and git's user is told why", async () => {
    const { clone, inside, seen } = await prepare()
    const { status, said } = await clone("other")
    expect(status).toBe(128)
    expect(said).toContain("berth: no credentials: that is no repo of this sandbox's workspace")
    expect(seen).toEqual([])
    expect(existsSync(join(inside, "other"))).toBe(false)
  })
})

describe("a repo of the host", () => {
  const author = { authorName: "Ada", authorEmail: "ada@example.test" }
  const prepare = async () => {
    const ends = await bothEnds()
    const repo = makeRepo(join(ends.host, "repo"))
    git(repo.path, "config", "user.name", author.authorName)
    git(repo.path, "config", "user.email", author.authorEmail)
    const path = join(ends.inside, "bundle")
    const wanted = { repo: "mine", ref: undefined, have: [], path }
    const answers = await ends.answers([{ directory: "mine", url: repo.path }])
    return { ...ends, ...repo, wanted, bundle: path, answers, repos: hostRepos(ends.hostRequests) }
  }

  it("comes as a bundle over the socket, and without a bundle when its commit is there already", async () => {
    const { repos, wanted, bundle, commit, inside, startServer, answers } = await prepare()
    startServer(answers)
    const sent = { commit, branch: "main", isBundled: true, ...author }
    expect(await repos.fetch(wanted, never)).toEqual(sent)
    expect(statSync(bundle).mode & 0o777).toBe(0o644)
    git("/", "clone", "--quiet", bundle, join(inside, "clone"))
    expect(git(join(inside, "clone"), "rev-parse", "HEAD")).toBe(commit)
    const again = { ...wanted, have: [commit], path: `${bundle}-2` }
    expect(await repos.fetch(again, never)).toMatchObject({ commit, isBundled: false })
    expect(existsSync(again.path)).toBe(false)
  })

  it("that is not of the workspace is refused with the server's reason", async () => {
    const { repos, wanted, startServer, answers } = await prepare()
    startServer(answers)
    await expect(repos.fetch({ ...wanted, repo: "other" }, never)).rejects.toMatchObject({
      code: "repo.not_of_workspace",
      message: "that is no repo of the host in this workspace",
    })
  })

  it("comes whole though one server ends before its answer, and the next one in the middle of the bundle", async () => {
    const { repos, wanted, bundle, commit, inside, startServer, answers } = await prepare()
    const fetched = repos.fetch(wanted, never)
    // The first server never answers.
    const asked = Promise.withResolvers<void>()
    const endFirst = startServer(async (_, signal) => {
      asked.resolve()
      await once(signal, "abort")
      throw signal.reason
    })
    await asked.promise
    await endFirst()
    // The second server dies while it sends.
    const begun = Promise.withResolvers<void>()
    const endSecond = startServer(async ({ sendBundle }) => {
      async function* half() {
        yield Buffer.from("# v2 git bundle\n")
        while (!existsSync(bundle)) await new Promise((resolve) => setImmediate(resolve))
        begun.resolve()
        await new Promise(() => {})
      }
      await sendBundle(Readable.from(half(), { objectMode: false }))
      throw new Error("not reached")
    })
    await begun.promise
    await endSecond()
    await expect.poll(() => existsSync(bundle)).toBe(false)
    startServer(answers)
    expect(await fetched).toEqual({ commit, branch: "main", isBundled: true, ...author })
    git("/", "clone", "--quiet", bundle, join(inside, "clone"))
  })
})
