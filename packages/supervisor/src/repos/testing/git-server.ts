import { spawn } from "node:child_process"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"

/** Faults that the server shows. */
export interface Fault {
  /** Accepts requests, and never answers them. */
  readonly hangs?: boolean
  /** Cuts the connection after this many bytes of a pack. */
  readonly cutAfterBytes?: number
  /** Refuses clients without this user name and password. */
  readonly credentials?: string
}

export interface GitServer {
  url(repo: string): string
  fault: Fault
  /** Called with the path of each request. */
  onRequest: (path: string) => void
  close(): Promise<void>
}

/** Serves the repos below a directory over HTTP, with git's own program. */
export const serveGit = async (root: string): Promise<GitServer> => {
  const sockets = new Set<Socket>()
  const http = createServer((request, response) => {
    server.onRequest(request.url ?? "")
    const { hangs, credentials } = server.fault
    if (hangs) return
    const given = request.headers.authorization?.replace(/^Basic /, "") ?? ""
    if (credentials && Buffer.from(given, "base64").toString() !== credentials)
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end()
    else answer(root, request, response, server.fault)
  })
  http.on("connection", (socket) => {
    sockets.add(socket)
    socket.on("close", () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve))
  const { port } = http.address() as AddressInfo
  const server: GitServer = {
    url: (repo) => `http://127.0.0.1:${port}/${repo}`,
    fault: {},
    onRequest: () => {},
    close: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => void http.close(() => resolve()))
    },
  }
  return server
}

const answer = (
  root: string,
  request: IncomingMessage,
  response: ServerResponse,
  { cutAfterBytes }: Fault,
): void => {
  const url = new URL(request.url ?? "", "http://localhost")
  const backend = spawn("git", ["-c", "safe.directory=*", "http-backend"], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"],
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"],
      GIT_PROTOCOL: request.headers["git-protocol"] as string,
    } as NodeJS.ProcessEnv,
    stdio: ["pipe", "pipe", "ignore"],
  })
  backend.stdin.on("error", () => {})
  request.pipe(backend.stdin)
  response.on("close", () => backend.kill("SIGKILL"))
  let head = Buffer.alloc(0)
  let sentBytes = 0
  backend.stdout.on("data", (chunk: Buffer) => {
    let body = chunk
    if (!response.headersSent) {
      head = Buffer.concat([head, chunk])
      const end = head.indexOf("\r\n\r\n")
      if (end < 0) return
      const headers = head.subarray(0, end).toString().split("\r\n")
      const pairs = headers.map((line) => line.split(": ") as [string, string])
      const status = pairs.find(([name]) => name === "Status")?.[1] ?? "200"
      response.writeHead(Number.parseInt(status, 10), Object.fromEntries(pairs))
      body = head.subarray(end + 4)
    }
    sentBytes += body.length
    response.write(body)
    const isPack = request.method === "POST"
    if (isPack && cutAfterBytes !== undefined && sentBytes > cutAfterBytes)
      response.socket?.destroy()
  })
  backend.stdout.on("end", () => response.end())
}
