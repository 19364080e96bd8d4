import { execFileSync } from "node:child_process"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { answerByGit } from "./git-backend.ts"

const ENV = {
  PATH: process.env.PATH ?? "",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@example.test",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@example.test",
}

export const git = (cwd: string, ...args: string[]): string =>
  execFileSync("git", args, { cwd, env: ENV, encoding: "utf8", stdio: "pipe" }).trim()

/** Makes a repo with these files and one more. */
export const makeRepo = (path: string, files: Readonly<Record<string, string>> = {}) => {
  git("/", "init", "--quiet", "-b", "main", path)
  for (const [name, content] of Object.entries({ file: "content", ...files }))
    writeFileSync(join(path, name), content)
  git(path, "add", ".")
  git(path, "commit", "--quiet", "-m", "first")
  return { path, commit: git(path, "rev-parse", "HEAD") }
}

export interface Tls {
  readonly key: string
  readonly cert: string
}

/**
 * Git over HTTP on loopback, with TLS where it gets a certificate, for clients that have the password. `onGranted`
 * runs before each granted request.
 */
export const servePrivateGit = async (
  root: string,
  { username, password }: { username: string; password: string },
  onGranted: () => void,
  tls?: Tls,
) => {
  const wanted = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    if (request.headers.authorization !== wanted) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end()
      return
    }
    onGranted()
    answerByGit(root, request, response)
  }
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer)
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `${tls === undefined ? "http" : "https"}://127.0.0.1:${(server.address() as AddressInfo).port}`
}
