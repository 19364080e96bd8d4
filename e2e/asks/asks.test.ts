import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Readable } from "node:stream"
import { text } from "node:stream/consumers"
import { serveCredentials } from "@berth/supervisor/bridge/credentials"
import { gitEnvironment } from "@berth/supervisor/bridge/git-environment"
import { hostRepos } from "@berth/supervisor/bridge/host-repos"
import { describe, expect, it, onTestFinished } from "vitest"
import { bothEnds } from "./both-ends.ts"
import { filesWith, processesWith } from "./leaks.ts"
import { git, makeRepo, servePrivateGit } from "./private-git.ts"

const HELPER = join(import.meta.dirname, "../../packages/supervisor/src/credential-helper.ts")
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
    const kept = join(ends.host, "kept")
    writeFileSync(kept, `${url.replace("//", `//u:${PASSWORD}@`)}\n`)
    writeFileSync(
      join(ends.host, ".gitconfig"),
      `[credential]\n\thelper = store --file=${JSON.stringify(kept)}\n`,
    )
    const socket = join(ends.inside, "git", "credentials.sock")
    const credentials = await serveCredentials({
      path: socket,
      user: undefined,
      hostRequests: ends.hostRequests,
    })
    onTestFinished(() => credentials.close())
    ends.startServer(await ends.answers([{ directory: "mine", url: `${url}/mine` }]))
    const home = join(ends.inside, "home")
    mkdirSync(home)
    // The user's own git settings would store every password.
    writeFileSync(join(home, ".gitconfig"), `[credential]\n\thelper = store\n`)
    const clone = async (name: string) => {
      const child = spawn("git", ["clone", "--quiet", `${url}/${name}`, join(ends.inside, name)], {
        env: {
          PATH: process.env.PATH,
          HOME: home,
          GIT_TERMINAL_PROMPT: "0",
          ...gitEnvironment({ node: process.execPath, helper: HELPER, socket }),
        },
        stdio: ["ignore", "inherit", "pipe"],
      })
      const [said, [status]] = await Promise.all([text(child.stderr), once(child, "close")])
      return { status, said }
    }
    return { ...ends, clone, commit, seen, url }
  }

  it("is cloned by git with its helper, and the password is left in no process, file, event or log", async () => {
    const { clone, commit, inside, journal, events, lines, seen } = await prepare()
    expect(await clone("mine")).toEqual({ status: 0, said: "" })
    expect(git(join(inside, "mine"), "rev-parse", "HEAD")).toBe(commit)
    expect(seen.length).toBeGreaterThan(0)
    expect(seen.flat()).toEqual([])
    await journal.append({ type: "warning", message: "last" })
    await expect.poll(() => events.length).toBe(1)
    expect(filesWith(inside, PASSWORD)).toEqual([])
    expect(JSON.stringify(events)).not.toContain(PASSWORD)
    expect(lines.join()).toContain("credential.grant ok")
    expect(lines.join()).not.toContain(PASSWORD)
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
