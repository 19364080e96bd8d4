import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type RequestListener } from "node:http"
import { connect, createServer as createPlainServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError, type WireError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { onTestFinished } from "vitest"
import { WebSocket } from "ws"
import { createLogger } from "../../../logging/logger.ts"
import { Secrets } from "../../../logging/secrets.ts"
import type { Claim } from "../../../sandboxes/requests/use.ts"
import type { Sandboxes } from "../../../sandboxes/sandboxes.ts"
import { listen } from "../../listen.ts"
import { createApi } from "../../server.ts"
import { stopApi } from "../../stop.ts"

export const TOKEN = "right-token-0123456789"
export const INSIDE = "token-of-the-sandbox"
export const SANDBOX = newId.sandbox()
export const authorized = { authorization: `Bearer ${TOKEN}` }

/** Starts a server in front of one sandbox, played by `inside`, which listens on a socket as a supervisor does. */
export const start = async (inside: Server, state: "running" | "exited" = "running") => {
  const directory = mkdtempSync(join(tmpdir(), "berth-proxy-"))
  const path = join(directory, "socket")
  inside.listen(path)
  await once(inside, "listening")
  const open = new Set<Socket>()
  inside.on("connection", (socket: Socket) => {
    open.add(socket)
    socket.on("close", () => open.delete(socket)).on("error", () => {})
  })
  const secrets = new Secrets()
  const destination = { write: () => {} }
  const log = await createLogger({ level: "error", pretty: false, secrets, destination })
  const dial = async () => {
    const socket = connect(path)
    await once(socket, "connect")
    return { socket: socket.on("error", () => {}), token: INSIDE }
  }
  /** The lease requests that were made, and those that have not ended yet. */
  const uses = { open: new Set<Claim>(), all: [] as Claim[], left: 0 }
  const sandboxes: Pick<Sandboxes, "use" | "stateOf"> = {
    use: async (sandbox, request) => {
      if (sandbox !== SANDBOX) throw new BerthError("not_found", "there is no such sandbox")
      uses.open.add(request)
      uses.all.push(request)
      return {
        sandbox,
        dial,
        renew: () => {},
        leave: async () => {
          uses.left += 1
        },
        end: async () => {
          uses.open.delete(request)
        },
      }
    },
    stateOf: async () => state,
  }
  const facts = {
    version: "1.2.3",
    pid: 1,
    installationId: newId.installation(),
    dataDir: "/data",
    backend: "embedded",
    startedAt: new Date(),
    startedAtMs: 0,
  }
  const sessions = () => Promise.reject(new Error("no sessions here"))
  const provide = async () => sandboxes as Sandboxes
  const api = createApi({ log, token: TOKEN, facts, sandboxes: provide, sessions })
  const url = await listen(api, { host: "127.0.0.1", port: 0 })
  onTestFinished(async () => {
    await stopApi(api, 0)
    for (const socket of open) socket.destroy()
    inside.close()
    rmSync(directory, { recursive: true })
  })
  const call = (rest: string, init: RequestInit = {}) =>
    fetch(`${url}/v1/sandboxes/${SANDBOX}${rest}`, {
      ...init,
      headers: { ...authorized, ...init.headers },
    })
  const failure = async (rest: string, init?: RequestInit) => {
    const reply = await call(rest, init)
    return { status: reply.status, ...((await reply.json()) as WireError) }
  }
  const socket = (rest: string, protocols: string[] = [], headers: object = authorized) =>
    new WebSocket(`${url.replace("http", "ws")}/v1/sandboxes/${SANDBOX}${rest}`, protocols, {
      headers: { ...headers },
    })
  return { api, url, call, failure, socket, open, uses }
}

export const answering = (listener: RequestListener) => start(createServer(listener))
export const saying = (bytes: string) =>
  start(createPlainServer((socket) => socket.once("data", () => socket.end(bytes))))
