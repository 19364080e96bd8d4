import { chmodSync, chownSync, mkdirSync } from "node:fs"
import { createServer, type Socket } from "node:net"
import { dirname } from "node:path"
import type { HostRequest } from "@berth/protocol/bridge"
import { MAX_URL_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError, toWireError } from "@berth/protocol/errors"
import type { User } from "../processes/user.ts"
import type { HostRequests } from "./host-requests.ts"
import { listen } from "./listen.ts"

/** Time limit from a connection to its whole question, which git has ready. */
export const QUESTION_DEADLINE_MS = 5_000

/** Limit of a question: a protocol, a host and a path, and a few words that git adds. */
export const MAX_QUESTION_BYTES = 16 * 1024

/** Limit of the gits that ask at the same time. */
export const MAX_CONNECTIONS = 64

export interface CredentialsOptions {
  readonly path: string
  /** The user who may ask, besides the supervisor's own. */
  readonly user: User | undefined
  readonly hostRequests: HostRequests
  readonly questionDeadlineMs?: number
}

export interface CredentialsServer {
  /** Ends every connection. A second call waits for the same end. */
  close(): Promise<void>
}

/**
 * Answers git's credential helper, which runs as the user and is not trusted. A question is the text that git passes to
 * its helpers. The answer is one JSON object, with a username and a password or with the reason for a refusal.
 */
export const serveCredentials = async (options: CredentialsOptions): Promise<CredentialsServer> => {
  const { path, user } = options
  const sockets = new Set<Socket>()
  const stop = new AbortController()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.once("close", () => sockets.delete(socket))
    void converse(socket, options, stop.signal)
  })
  server.maxConnections = MAX_CONNECTIONS
  mkdirSync(dirname(path), { recursive: true })
  chmodSync(dirname(path), 0o755)
  await listen(server, { path })
  if (user !== undefined) chownSync(path, user.uid, user.gid)
  const closed = new Promise<void>((resolve) => server.once("close", resolve))
  return {
    close: async () => {
      stop.abort()
      if (server.listening) server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

const converse = async (
  socket: Socket,
  { hostRequests, questionDeadlineMs = QUESTION_DEADLINE_MS }: CredentialsOptions,
  signal: AbortSignal,
): Promise<void> => {
  const gone = new AbortController()
  socket.on("error", () => {})
  socket.once("close", () => gone.abort())
  try {
    const question = parseQuestion(await readQuestion(socket, questionDeadlineMs))
    const { username, password } = await hostRequests.send(
      question,
      AbortSignal.any([signal, gone.signal]),
    )
    socket.end(JSON.stringify({ username, password }))
  } catch (thrown) {
    const { message, hint } = toWireError(thrown)
    socket.end(JSON.stringify({ refused: `${message}. ${hint}` }))
  }
}

const readQuestion = (socket: Socket, deadlineMs: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const deadline = setTimeout(() => {
      socket.destroy()
      reject(refused("the question did not come in time"))
    }, deadlineMs)
    socket.on("data", (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MAX_QUESTION_BYTES) {
        socket.pause()
        reject(refused("the question is too long"))
      } else chunks.push(chunk)
    })
    socket.once("end", () => {
      clearTimeout(deadline)
      resolve(Buffer.concat(chunks).toString("utf8"))
    })
    socket.once("close", () => {
      clearTimeout(deadline)
      reject(refused("the question was not ended"))
    })
  })

/** Parses lines of `key=value`, and ignores other lines. */
const parseQuestion = (text: string): Extract<HostRequest, { kind: "credential" }> => {
  const said = new Map(
    text.split("\n").flatMap((line) => {
      const at = line.indexOf("=")
      return at < 0 ? [] : [[line.slice(0, at), line.slice(at + 1)] as const]
    }),
  )
  const protocol = said.get("protocol") ?? ""
  const host = said.get("host") ?? ""
  const path = said.get("path")
  if (protocol !== "https" && protocol !== "http") throw refused("it is not for http or https")
  if (host === "" || Math.max(host.length, path?.length ?? 0) > MAX_URL_CHARS)
    throw refused("it names no host, or one that is too long")
  return { kind: "credential", protocol, host, ...(path !== undefined && { path }) }
}

const refused = (why: string): BerthError =>
  new BerthError("credentials.refused", `no credentials: ${why}`)
