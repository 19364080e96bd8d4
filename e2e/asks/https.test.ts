import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readFileSync } from "node:fs"
import { createServer } from "node:https"
import { type AddressInfo, connect } from "node:net"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished } from "vitest"
import { bothEnds } from "./both-ends.ts"
import { expectNoTrace, openGitInside, storePassword } from "./git-inside.ts"
import { filesWith, processesWith } from "./leaks.ts"
import { git, makeRepo, servePrivateGit, type Tls } from "./private-git.ts"

const PASSWORD = "a-token-of-the-real-remote"

/** Makes a certificate for loopback that is its own authority. */
const makeTls = (directory: string): Tls & { readonly file: string } => {
  const [key, file] = [join(directory, "key.pem"), join(directory, "cert.pem")]
  const names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
  execFileSync(
    "openssl",
    [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
      ...["-subj", "/CN=berth tests", "-addext", names, "-days", "2", "-keyout", key, "-out", file],
    ],
    { stdio: "pipe" },
  )
  return { key: readFileSync(key, "utf8"), cert: readFileSync(file, "utf8"), file }
}

/** Serves a hostile remote, which asks every client for a password and notes the ones that it gets. */
const serveThief = async (tls: Tls) => {
  const stolen: string[] = []
  const paths: string[] = []
  const server = createServer(tls, (request, response) => {
    paths.push(request.url ?? "")
    const { authorization } = request.headers
    if (authorization !== undefined) stolen.push(authorization)
    response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end()
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { stolen, paths, port: (server.address() as AddressInfo).port }
}

/** Serves a remote of the workspace that redirects its clients. */
const serveRedirect = async (tls: Tls, to: string) => {
  const server = createServer(tls, (request, response) => {
    response.writeHead(302, { location: `${to}${request.url ?? ""}` }).end()
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const prepare = async () => {
  const ends = await bothEnds()
  const tls = makeTls(ends.host)
  const root = join(ends.directory, "served")
  mkdirSync(root)
  const thief = await serveThief(tls)
  const { commit } = makeRepo(join(root, "mine"), {
    ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    ".lfsconfig": `[lfs]\n\turl = https://127.0.0.1:${thief.port}/mine\n`,
    "large.bin": `version https://git-lfs.github.com/spec/v1\noid sha256:${"ab".repeat(32)}\nsize 12345\n`,
  })
  makeRepo(join(root, "other"))
  const seen: string[][] = []
  const look = () => void seen.push(processesWith(PASSWORD))
  const account = { username: "u", password: PASSWORD }
  const url = await servePrivateGit(root, account, look, tls)
  const moved = await serveRedirect(tls, `https://localhost:${thief.port}`)
  // The host's git has a password for all of them, the thief's address included.
  const places = [url, moved, `https://127.0.0.1:${thief.port}`, `https://localhost:${thief.port}`]
  storePassword(ends, places, PASSWORD)
  const { socket, run: runGit } = await openGitInside(ends)
  ends.startServer(
    await ends.answers([
      { directory: "mine", url: `${url}/mine` },
      { directory: "moved", url: `${moved}/mine` },
    ]),
  )
  const env = { GIT_SSL_CAINFO: tls.file, GIT_LFS_SKIP_SMUDGE: "1" }
  const run = (cwd: string, ...args: string[]) => runGit(args, { cwd, env })
  const clone = (from: string, name: string) =>
    run("/", "clone", "--quiet", from, join(ends.inside, name))
  return { ...ends, run, clone, commit, seen, url, moved, thief, socket, root }
}

describe("a credential for an https remote", () => {
  it("clones the workspace's repo, and stands in no argument, environment, file, event or log", async () => {
    const ends = await prepare()
    expect(await ends.clone(`${ends.url}/mine`, "mine")).toMatchObject({ status: 0 })
    expect(git(join(ends.inside, "mine"), "rev-parse", "HEAD")).toBe(ends.commit)
    await expectNoTrace(ends, PASSWORD)
  })

  it("is not given for another path, host, port or protocol, nor where a remote redirects to", async () => {
    const { clone, url, moved, thief, seen, inside } = await prepare()
    const { port } = new URL(url)
    const wrong = [
      `${url}/other`,
      `${url}/mine/../other`,
      `${url}/%6Fther`,
      `https://localhost:${port}/mine`,
      `https://127.0.0.1:${thief.port}/mine`,
      `https://127.0.0.1:${port}@localhost:${thief.port}/mine`,
      `https://127.0.0.1%3a${port}%2fmine@localhost:${thief.port}/mine`,
      `${moved}/mine`,
    ]
    for (const [at, from] of wrong.entries()) {
      const { status } = await clone(from, `wrong-${at}`)
      expect([from, status]).toEqual([from, 128])
    }
    expect(seen).toEqual([])
    expect(thief.paths.length).toBeGreaterThan(0)
    expect(thief.stolen.filter((sent) => isPassword(sent))).toEqual([])
    expect(filesWith(inside, PASSWORD)).toEqual([])
  })

  it("is not given for a question that breaks the lines of git's protocol", async () => {
    const { socket, url, thief } = await prepare()
    const { host } = new URL(url)
    const evil = `127.0.0.1:${thief.port}`
    const questions = [
      `protocol=https\nhost=${host}\nhost=${evil}\npath=mine\n`,
      `protocol=https\nhost=${evil}\n\nhost=${evil}\npath=mine\n`,
      `protocol=https\nhost=${host}\0.evil\npath=mine\n`,
      `protocol=https\nhost=${host}\r\npath=mine\r\n`,
      `protocol=https\nhost=${host}\npath=mine\0\n`,
      `url=https://${host}/mine\n`,
      `protocol=https\nhost=u@${host}\npath=mine\n`,
      `protocol=https\nhost=${host.replace(":", "%3a")}\npath=mine\n`,
      `protocol=https\nhost=${host}\n`,
      `protocol=https\nhost=${host}\npath=mine/info/lfs\n`,
    ]
    for (const question of questions) {
      const connection = connect(socket)
      connection.end(question)
      const said = await text(connection)
      expect([question, Object.keys(JSON.parse(said))]).toEqual([question, ["refused"]])
    }
  })

  requires("gitLfs").it("is not sent where a repo's .lfsconfig points to", async () => {
    const { clone, run, url, thief, inside } = await prepare()
    expect(await clone(`${url}/mine`, "mine")).toMatchObject({ status: 0 })
    const { status } = await run(join(inside, "mine"), "lfs", "pull")
    expect(status).not.toBe(0)
    expect(thief.paths.some((path) => path.includes("/objects/batch"))).toBe(true)
    expect(thief.stolen).toEqual([])
    expect(existsSync(join(inside, "home", ".git-credentials"))).toBe(false)
  })
})

const isPassword = (header: string): boolean =>
  Buffer.from(header.replace(/^Basic /, ""), "base64")
    .toString()
    .includes(PASSWORD)
