import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { onTestFinished } from "vitest"

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

/** A repo with one file. */
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

/** Git over HTTP on loopback, with TLS where it gets a certificate, for those who have the password. `onGranted` runs before each granted request. */
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
    runBackend(root, request, response)
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

/** One request by CGI: headers, an empty line, the body. */
const runBackend = (root: string, request: IncomingMessage, response: ServerResponse): void => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://git")
  const child = spawn("git", ["http-backend"], {
    env: {
      PATH: ENV.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      REQUEST_METHOD: request.method ?? "GET",
      PATH_INFO: decodeURIComponent(pathname),
      QUERY_STRING: searchParams.toString(),
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      HTTP_GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
    },
    stdio: ["pipe", "pipe", "ignore"],
  })
  child.stdin.on("error", () => {})
  request.pipe(child.stdin)
  let head = Buffer.alloc(0)
  const onData = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf("\r\n\r\n")
    if (end < 0) return
    child.stdout.off("data", onData)
    for (const line of head.subarray(0, end).toString("latin1").split("\r\n")) {
      const [name = "", value = ""] = line.split(": ")
      if (name === "Status") response.statusCode = Number.parseInt(value, 10)
      else response.setHeader(name, value)
    }
    response.write(head.subarray(end + 4))
    child.stdout.pipe(response)
  }
  child.stdout.on("data", onData)
}
