import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Writable } from "node:stream"
import type { HostRequest } from "@berth/protocol/bridge"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { createLogger } from "../logging/logger.ts"
import { Secrets } from "../logging/secrets.ts"
import { answerHostRequests, type WorkspaceRepo } from "./answer-host-requests.ts"
import { git, makeRepo, temporaryDirectory } from "./testing/host-repos.ts"

const PASSWORD = "s3cret-of-the-host"
const never = new AbortController().signal

/** Plays a host whose git has a helper that knows one password for everything, and notes each question. */
const host = async (repos: readonly WorkspaceRepo[]) => {
  const home = temporaryDirectory()
  const asked = join(home, "asked")
  const helper = `!f() { cat >> '${asked}'; test "$1" = get && printf 'username=u\\npassword=${PASSWORD}\\n'; }; f`
  writeFileSync(join(home, ".gitconfig"), `[credential]\n\thelper = ${JSON.stringify(helper)}\n`)
  const lines: string[] = []
  const secrets = new Secrets()
  const log = await createLogger({
    level: "debug",
    pretty: false,
    secrets,
    destination: new Writable({
      write: (line, _, done) => {
        lines.push(String(line))
        done()
      },
    }),
  })
  const environment = { PATH: process.env.PATH, HOME: home, GIT_ASKPASS: "/bin/false" }
  const answer = answerHostRequests({ sandbox: newId.sandbox(), repos, environment, secrets, log })
  const sent: Buffer[] = []
  const sendBundle = async (body: AsyncIterable<Buffer>) => {
    for await (const chunk of body) sent.push(chunk)
  }
  const openTunnel = () => Promise.reject(new Error("nothing waits for one"))
  const means = { sendBundle, openTunnel }
  return {
    ask: (request: HostRequest) => answer({ request, ...means }, never),
    lines,
    log,
    sent,
    asked,
    home,
  }
}

const credential = (url: string): HostRequest => {
  const [, protocol = "", host = "", path] = /^(\w+):\/\/([^/]*)(?:\/(.*))?$/s.exec(url) ?? []
  return { kind: "credential", protocol, host, ...(path !== undefined && { path }) }
}

const REPOS: readonly WorkspaceRepo[] = [
  { directory: "one", url: "https://git.example.test/team/one.git" },
  { directory: "two", url: "https://alice@Git.Example.test:443/team/two%20words/" },
  { directory: "ssh", url: "git@git.example.test:team/ssh.git" },
  { directory: "bare", url: "https://bare.example.test" },
]

describe("a credential", () => {
  it.each([
    "https://git.example.test/team/one.git",
    "https://git.example.test/team/one",
    "https://git.example.test/team/one.git/",
    "https://GIT.example.test:443/team/one.git",
    "https://git.example.test/team/two words",
  ])("is granted for a repo of the workspace: %s", async (url) => {
    const { ask, lines, log, asked } = await host(REPOS)
    expect(await ask(credential(url))).toEqual({
      kind: "credential",
      username: "u",
      password: PASSWORD,
    })
    const isAlices = readFileSync(asked, "utf8").includes("username=alice\n")
    expect(isAlices).toBe(url.includes("two"))
    log.info({ whatever: `it was ${PASSWORD}` }, PASSWORD)
    expect(lines).toHaveLength(2)
    expect(lines.join()).toContain("credential.grant")
    expect(lines.join()).not.toContain(PASSWORD)
  })

  it.each([
    "https://git.example.test/team/other.git",
    "https://git.example.test/team",
    "https://git.example.test/",
    "https://git.example.test",
    "https://evil.example.test/team/one.git",
    "https://git.example.test.evil.test/team/one.git",
    "https://git.example.test./team/one.git",
    "https://git.example.test:8443/team/one.git",
    "https://git.example.test:80/team/one.git",
    "https://evil.test#git.example.test/team/one.git",
    "https://git.example.test@evil.test/team/one.git",
    "https://git.example.test\u0000/team/one.git",
    "https://git.example.test\nhost=evil.test/team/one.git",
    "http://git.example.test/team/one.git",
    "ssh://git.example.test/team/ssh.git",
    "HTTPS://git.example.test/team/one.git",
    "constructor://git.example.test/team/one.git",
    "https://git.example.test/team/ONE.git",
    "https://git.example.test/Team/one.git",
    "https://git.example.test/team/one.git.git",
    "https://git.example.test/team/../team/one.git",
    "https://git.example.test/team/./one.git",
    "https://git.example.test//team/one.git",
    "https://git.example.test/team//one.git",
    "https://git.example.test/team/%2e%2e/team/one.git",
    "https://git.example.test/team%2fone.git",
    "https://git.example.test/team/one%2egit",
    "https://git.example.test/team/two%20words",
    "https://git.example.test/team/one.git?x",
    "https://git.example.test/team/one.git#x",
    "https://git.example.test/team/one.git\npath=team/other.git",
    "https://git.example.test/team/one.git\u0000",
    "https://git.example.test/team/one.git/../other.git",
    "https://bare.example.test/",
  ])("is refused for any other address, without asking the host's git: %j", async (url) => {
    const { ask, home } = await host(REPOS)
    await expect(ask(credential(url))).rejects.toMatchObject({ code: "credentials.refused" })
    expect(readdirSync(home)).toEqual([".gitconfig"])
  })

  it("is reported as missing where the host's git has none, without a prompt", async () => {
    const { ask, home } = await host(REPOS)
    writeFileSync(join(home, ".gitconfig"), "[core]\n\taskPass = /bin/false\n")
    await expect(ask(credential("https://git.example.test/team/one.git"))).rejects.toMatchObject({
      code: "credentials.none",
      details: { gitSaid: expect.stringContaining("terminal prompts disabled") },
    })
  })
})

describe("a repo", () => {
  it("of the workspace is sent, at the workspace's own ref", async () => {
    const { path, second, first } = makeRepo()
    const { ask, sent } = await host([
      { directory: "a/b", url: path },
      { directory: "c", url: `file://${path}`, ref: first },
    ])
    git(path, "config", "user.name", "Ada")
    git(path, "config", "user.email", "ada@example.test")
    expect(await ask({ kind: "repo", repo: "a/b", have: [] })).toEqual({
      kind: "repo",
      commit: second,
      authorName: "Ada",
      authorEmail: "ada@example.test",
      branch: "main",
      bundled: true,
    })
    expect(Buffer.concat(sent).toString("latin1")).toMatch(/^# v2 git bundle\n/)
    expect(await ask({ kind: "repo", repo: "c", ref: first, have: [first] })).toEqual({
      kind: "repo",
      commit: first,
      authorName: "Ada",
      authorEmail: "ada@example.test",
      bundled: false,
    })
  })

  it.each<[string, string, string | undefined]>([
    ["another one", "other", undefined],
    ["a path of the host", "etc", undefined],
    ["a remote one", "one", undefined],
    ["another ref", "mine", "main"],
    ["the ref of another", "pinned", undefined],
  ])("is refused when it is %s", async (_, repo, ref) => {
    const { path, first } = makeRepo()
    const { ask, sent } = await host([
      ...REPOS,
      { directory: "mine", url: path },
      { directory: "pinned", url: path, ref: first },
    ])
    const refused = ask({ kind: "repo", repo, ...(ref && { ref }), have: [] })
    await expect(refused).rejects.toMatchObject({ code: "repo.not_of_workspace" })
    expect(sent).toEqual([])
  })

  it.each(["repo", "./repo", "~/repo", "file://elsewhere/repo"])(
    "is refused with the address %s",
    async (url) => {
      const { ask } = await host([{ directory: "r", url }])
      await expect(ask({ kind: "repo", repo: "r", have: [] })).rejects.toMatchObject({
        code: "input.invalid",
      })
    },
  )
})
