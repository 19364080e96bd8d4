import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type RequestListener } from "node:http"
import { connect, createServer as createPlainServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { BerthError, type WireError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished } from "vitest"
import { WebSocket, WebSocketServer } from "ws"
import { createLogger } from "../../logging/logger.ts"
import { Secrets } from "../../logging/secrets.ts"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import type { Claim } from "../../sandboxes/use.ts"
import { listen } from "../listen.ts"
import { createApi } from "../server.ts"
import { stopApi } from "../stop.ts"

const TOKEN = "right-token-0123456789"
const INSIDE = "token-of-the-sandbox"
const SANDBOX = newId.sandbox()
const authorized = { authorization: `Bearer ${TOKEN}` }

/** A server before one sandbox, played by `inside`, which listens on a socket as a supervisor does. */
const start = async (inside: Server, state: "running" | "exited" = "running") => {
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
  /** What was claimed, by whom it is not ended yet, and what may have been left. */
  const uses = { open: new Set<Claim>(), all: [] as Claim[], left: 0 }
  const sandboxes: Pick<Sandboxes, "use" | "stateOf"> = {
    use: async (sandbox, claim) => {
      if (sandbox !== SANDBOX) throw new BerthError("not_found", "there is no such sandbox")
      uses.open.add(claim)
      uses.all.push(claim)
      return {
        ...{ sandbox, dial, renew: () => {} },
        leave: async () => {
          uses.left += 1
        },
        end: async () => {
          uses.open.delete(claim)
        },
      }
    },
    stateOf: async () => state,
  }
  const facts = {
    ...{ version: "1.2.3", pid: 1, installationId: newId.installation(), dataDir: "/data" },
    ...{ backend: "embedded", startedAt: new Date(), startedAtMs: 0 },
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

const answering = (listener: RequestListener) => start(createServer(listener))
const saying = (bytes: string) =>
  start(createPlainServer((socket) => socket.once("data", () => socket.end(bytes))))

const UNASKED_UPGRADE = "HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"

describe("requests to a sandbox", () => {
  it("pass with their path, query and body, with the sandbox's token, and few headers", async () => {
    const seen: unknown[] = []
    const { call } = await answering((request, response) => {
      void text(request).then((body) => {
        seen.push({ method: request.method, url: request.url, headers: request.headers, body })
        response.writeHead(206, {
          ...{ "content-range": "bytes 0-1/9", etag: '"x"', "set-cookie": "a=b" },
          ...{ "access-control-allow-origin": "*", location: "http://example.com" },
        })
        response.end("ok")
      })
    })
    const headers = { range: "bytes=0-1", cookie: "c=d", "x-else": "1", "content-type": "a/b" }
    const reply = await call("/files/content?path=%2Fa%20b", { method: "PUT", body: "in", headers })
    expect(await reply.text()).toBe("ok")
    expect([reply.status, reply.headers.get("content-range")]).toEqual([206, "bytes 0-1/9"])
    for (const name of ["set-cookie", "access-control-allow-origin", "location"])
      expect(reply.headers.get(name)).toBe(null)
    expect(reply.headers.get("x-content-type-options")).toBe("nosniff")
    expect(seen).toMatchObject([
      {
        ...{ method: "PUT", url: "/files/content?path=%2Fa%20b", body: "in" },
        headers: { authorization: `Bearer ${INSIDE}`, range: "bytes=0-1", "content-type": "a/b" },
      },
    ])
    expect(JSON.stringify(seen)).not.toMatch(/cookie|x-else|right-token/)
  })

  it("carry bodies of any size, as fast as the sandbox reads", async () => {
    let received = 0
    let paused: (() => void) | undefined
    const { call } = await answering((request, response) => {
      paused = () => {
        request.on("data", (chunk: Buffer) => {
          received += chunk.length
        })
        request.on("end", () => response.end(String(received)))
      }
    })
    let sent = 0
    const size = 64 * 1024 * 1024
    const body = new ReadableStream({
      pull: (controller) => {
        if (sent >= size) return controller.close()
        sent += 65_536
        controller.enqueue(new Uint8Array(65_536))
      },
    })
    const answer = call("/files/content", { method: "PUT", body, duplex: "half" } as RequestInit)
    // What nobody reads stays where it is, but for what the system's buffers hold.
    let before = -1
    await expect
      .poll(
        () => {
          const isStill = sent === before && paused !== undefined
          before = sent
          return isStill
        },
        { interval: 200 },
      )
      .toBe(true)
    expect(sent).toBeLessThan(16 * 1024 * 1024)
    paused?.()
    expect(await (await answer).text()).toBe(String(size))
  })

  it("end inside when the client goes, and for the client when the sandbox breaks off", async () => {
    const arrived = Promise.withResolvers<void>()
    const { call, open } = await answering((request, response) => {
      response.writeHead(200).write("begun")
      if (request.url === "/commands/cut") request.socket.end()
      else arrived.resolve()
    })
    const abort = new AbortController()
    const reply = await call("/commands", { signal: abort.signal })
    await arrived.promise
    expect(open.size).toBe(1)
    abort.abort()
    await expect(reply.text()).rejects.toThrow()
    await expect.poll(() => open.size).toBe(0)
    await expect((await call("/commands/cut")).text()).rejects.toThrow()
  })

  it.each([
    ["a redirect", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "bridge.protocol_violated"],
    [
      "compression",
      "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
      "bridge.protocol_violated",
    ],
    ["another protocol", "SSH-2.0-OpenSSH\r\n", "bridge.protocol_violated"],
    ["nothing", "", "bridge.dropped"],
    ["a refused token", "HTTP/1.1 401 No\r\n\r\n", "bridge.unauthorized"],
    ["headers without end", `HTTP/1.1 200 OK\r\nA: ${"x".repeat(20_000)}`, "bridge.limit_exceeded"],
    ["an upgrade", UNASKED_UPGRADE, "bridge.protocol_violated"],
  ])("answer %s with an error of the table", async (_, bytes, code) => {
    const { failure } = await saying(bytes)
    expect(await failure("/commands")).toMatchObject({ code })
  })

  it("say that a sandbox has ended instead of waiting for it", async () => {
    const { failure } = await start(
      createServer(() => {}),
      "exited",
    )
    expect(await failure("/commands")).toMatchObject({ code: "backend.unknown_sandbox" })
  })

  it("reach what sandboxes serve to clients, and nothing else", async () => {
    const { call, url } = await answering((_, response) => response.end("reached"))
    const others = ["/bridge", "/health", "/bundles/x", "/activity", "/activity?after=1&wait=1"]
    for (const path of [...others, "/commandsx", "/%63ommands"])
      expect((await call(path)).status).toBe(404)
    expect((await fetch(`${url}/v1/sandboxes/${SANDBOX}/commands`)).status).toBe(401)
    const other = `${url}/v1/sandboxes/${newId.sandbox()}/commands`
    expect((await fetch(other, { headers: authorized })).status).toBe(404)
  })
})

describe("WebSockets to a sandbox", () => {
  /** Says what it hears. */
  const echoing = () => {
    const server = createServer()
    const sockets = new WebSocketServer({ server })
    sockets.on("connection", (socket, { url, headers }) => {
      socket.send(JSON.stringify({ url, authorization: headers.authorization }))
      socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }))
    })
    return start(server)
  }
  const failed = async (socket: WebSocket): Promise<number> => {
    const [, response] = await once(
      socket.on("error", () => {}),
      "unexpected-response",
    )
    socket.terminate()
    return response.statusCode
  }

  it("pass bytes both ways, and end with either side", async () => {
    const { socket, open } = await echoing()
    const client = socket("/commands/run?a=b")
    const [hello] = await once(client, "message")
    expect(JSON.parse(String(hello))).toEqual({
      ...{ url: "/commands/run?a=b", authorization: `Bearer ${INSIDE}` },
    })
    const bytes = Buffer.alloc(3_000_000, 7)
    client.send(bytes)
    const [back, isBinary] = await once(client, "message")
    expect([bytes.equals(back), isBinary]).toEqual([true, true])
    client.terminate()
    await expect.poll(() => open.size).toBe(0)
    const other = socket("/commands/run")
    await once(other, "message")
    for (const each of open) each.destroy()
    expect((await once(other, "close"))[0]).toBe(1006)
  })

  it("take the token as a subprotocol, from pages of this machine", async () => {
    const { socket } = await echoing()
    const bearer = `berth.bearer.${TOKEN}`
    const page = { origin: "http://localhost:3000" }
    for (const [offered, chosen] of [
      [["berth", bearer], "berth"],
      [[bearer], bearer],
    ] as const) {
      const client = socket("/commands/run", [...offered], page)
      await once(client, "open")
      expect(client.protocol).toBe(chosen)
      client.terminate()
    }
    for (const origin of ["http://evil.example", "null", "http://localhost.evil.example"])
      expect(await failed(socket("/commands/run", [bearer], { origin }))).toBe(403)
    expect(await failed(socket("/commands/run", [], {}))).toBe(401)
    expect(await failed(socket("/bridge"))).toBe(404)
  })

  it("tell those who see no status why they are refused", async () => {
    const { socket } = await answering((_, response) => response.end())
    const said = JSON.stringify({ code: "not_found", message: "no such", details: {} })
    const { socket: refusing } = await saying(
      `HTTP/1.1 404 No\r\nContent-Length: ${said.length}\r\n\r\n${said}`,
    )
    const refusalOf = async (client: WebSocket) =>
      JSON.parse(String((await once(client, "message"))[0]))
    expect(
      await refusalOf(socket("/commands/run", ["berth", "berth.bearer.wrong"], {})),
    ).toMatchObject({ type: "refused", error: { code: "auth.required" } })
    const right = ["berth", `berth.bearer.${TOKEN}`]
    expect(await refusalOf(refusing("/commands/x/attach", right, {}))).toMatchObject({
      ...{ type: "refused", error: { code: "not_found", message: "no such" } },
    })
    const early = refusing("/commands/x/attach", [...right, "berth.refused"], {})
    await once(early, "open")
    expect(early.protocol).toBe("berth.refused")
    expect(await failed(refusing("/commands/x/attach"))).toBe(404)
  })

  it.each([
    ["a wrong key", "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"],
    ["no upgrade", "HTTP/1.1 200 OK\r\n\r\n"],
    ["nothing", ""],
  ])("do not come about with %s", async (_, bytes) => {
    const { socket } = await saying(bytes)
    expect(await failed(socket("/commands/run"))).toBeGreaterThan(500)
  })

  it("do not hold up the server's end", async () => {
    const { socket, api } = await echoing()
    const client = socket("/commands/run")
    await once(client, "message")
    const closed = once(client, "close")
    expect(await stopApi(api, 10_000)).toBe(true)
    await closed
  })
})

describe("a use of a sandbox", () => {
  it("[R1.7] is claimed as what it is, and ends with its call", async () => {
    const { call, uses } = await answering((_request, reply) => reply.end("{}"))
    for (const [method, path] of [
      ...[
        ["GET", "/files/x"],
        ["GET", "/git/status"],
        ["POST", "/commands"],
      ],
      ...[
        ["POST", "/terminals"],
        ["GET", "/ports"],
      ],
    ] as const)
      await (await call(path, { method })).text()
    expect(uses.all.map(({ kind }) => kind)).toEqual([
      ...["exec", "exec", "exec", "terminal", "preview"],
    ])
    await expect.poll(() => uses.open.size).toBe(0)
    // A command in the background and a terminal go on: they have leases of their own before this one ends.
    expect(uses.left).toBe(2)
  })

  it("[R1.7] lasts as long as its WebSocket", async () => {
    const server = createServer()
    new WebSocketServer({ server })
    const { socket, uses } = await start(server)
    const client = socket("/terminals/x")
    await once(client, "open")
    expect([...uses.open]).toMatchObject([{ kind: "terminal" }])
    client.close()
    await expect.poll(() => uses.open.size).toBe(0)
  })
})
