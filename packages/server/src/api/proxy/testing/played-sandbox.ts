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
import type { LeaseRequest } from "../../../sandboxes/requests/use.ts"
import type { Sandboxes } from "../../../sandboxes/sandboxes.ts"
import { serveApi, TOKEN } from "../../testing/make-api.ts"

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
  const dial = async () => {
    const socket = connect(path)
    await once(socket, "connect")
    return { socket: socket.on("error", () => {}), token: INSIDE }
  }
  /** The lease requests that were made, and those whose use has not ended yet. */
  const uses = { open: new Set<LeaseRequest>(), all: [] as LeaseRequest[], left: 0 }
  const use: Partial<Sandboxes["use"]> = {
    begin: async (sandbox, request) => {
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
  }
  const running: Partial<Sandboxes["running"]> = { stateOf: async () => state }
  const sandboxes = { use, running } as Partial<Sandboxes>
  onTestFinished(() => {
    for (const socket of open) socket.destroy()
    inside.close()
    rmSync(directory, { recursive: true })
  })
  const { api, url } = await serveApi({ sandboxes: async () => sandboxes as Sandboxes })
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
