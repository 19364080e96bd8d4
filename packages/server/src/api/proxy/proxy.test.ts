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

const DENIED = JSON.stringify({ code: "files.denied", message: "no", details: {} })
const UNASKED_UPGRADE = "HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"

describe("requests to a sandbox", () => {
  it("pass with their path, query and body, with the sandbox's token, and few headers", async () => {
    const seen: unknown[] = []
    const { call } = await answering((request, response) => {
      void text(request).then((body) => {
        seen.push({ method: request.method, url: request.url, headers: request.headers, body })
        response.writeHead(206, {
          ...{ "content-range": "bytes 0-1/9", etag: '"x"', "set-cookie": "a=b" },
          "content-type": "text/html",
          ...{ "access-control-allow-origin": "*", location: "http://example.com" },
        })
        response.end("ok")
      })
    })
    const headers = { range: "bytes=0-1", cookie: "c=d", "x-else": "1", "content-type": "a/b" }
    await (await call("/files/move?a=%2Fb", { method: "POST", body: "in", headers })).text()
    const reply = await call("/files/content?path=%2Fa%20b", { headers })
    expect(await reply.text()).toBe("ok")
    expect(reply.headers.get("content-type")).toBe("application/octet-stream")
    expect([reply.status, reply.headers.get("content-range")]).toEqual([206, "bytes 0-1/9"])
    for (const name of ["set-cookie", "access-control-allow-origin", "location"])
      expect(reply.headers.get(name)).toBe(null)
    expect(reply.headers.get("x-content-type-options")).toBe("nosniff")
    expect(seen).toMatchObject([
      {
        method: "POST",
        url: "/files/move?a=%2Fb",
        body: "in",
        headers: { authorization: `Bearer ${INSIDE}`, range: "bytes=0-1", "content-type": "a/b" },
      },
      { method: "GET", url: "/files/content?path=%2Fa%20b" },
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
        request.on("end", () => response.end(JSON.stringify({ entries: received })))
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
    const answer = call("/files/archive", { method: "PUT", body, duplex: "half" } as RequestInit)
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
    expect(await (await answer).json()).toEqual({ entries: size })
  })

  it("end inside when the client goes, and for the client when the sandbox breaks off", async () => {
    let arrived = Promise.withResolvers<void>()
    const { call, open } = await answering((request, response) => {
      response.writeHead(200).write("begun")
      if (request.url === "/files/archive?cut") request.socket.end()
      else arrived.resolve()
    })
    for (const path of ["/files/archive", "/commands"]) {
      arrived = Promise.withResolvers<void>()
      const abort = new AbortController()
      const reply = call(path, { signal: abort.signal }).then((begun) => begun.text())
      reply.catch(() => {})
      await arrived.promise
      expect(open.size).toBe(1)
      abort.abort()
      await expect(reply).rejects.toThrow()
      await expect.poll(() => open.size).toBe(0)
    }
    await expect((await call("/files/archive?cut")).text()).rejects.toThrow()
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

  it("ask the sandbox to leave the connection open, and end it themselves", async () => {
    const asked: unknown[] = []
    const { call, open } = await answering((request, response) => {
      asked.push(request.headers.connection)
      void text(request).then(() => response.end("ok"))
    })
    const reply = await call("/files/content?path=a")
    expect([await reply.text(), asked]).toEqual(["ok", ["keep-alive"]])
    await expect.poll(() => open.size).toBe(0)
  })

  it.each([
    [
      "of the sandbox",
      `HTTP/1.1 403 No\r\nContent-Length: ${DENIED.length}\r\n\r\n${DENIED}`,
      /^HTTP\/1\.1 403 /,
    ],
    ["of the server", "SSH-2.0-OpenSSH\r\n", /^HTTP\/1\.1 502 /],
  ])("let a client that reads last see an early answer %s", async (_, bytes, expected) => {
    const inside = createPlainServer((socket) => socket.once("data", () => socket.write(bytes)))
    const { url } = await start(inside)
    const size = 16 * 1024 * 1024
    const client = connect({ host: "127.0.0.1", port: Number(new URL(url).port) })
    onTestFinished(() => void client.destroy())
    client.write(
      [
        `PUT /v1/sandboxes/${SANDBOX}/files/content HTTP/1.1`,
        `Host: ${new URL(url).host}`,
        `Authorization: Bearer ${TOKEN}`,
        `Content-Length: ${size}\r\n\r\n`,
      ].join("\r\n"),
    )
    const piece = Buffer.alloc(64 * 1024)
    for (let sent = 0; sent < size; sent += piece.length)
      await new Promise<void>((resolve, reject) => {
        client.once("error", reject)
        client.write(piece, () => {
          client.off("error", reject)
          resolve()
        })
      })
    expect(await text(client)).toMatch(expected)
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
    for (const path of [...others, "/commandsx", "/%63ommands", "/files/else", "/commands/x/y"])
      expect((await call(path)).status).toBe(404)
    expect((await fetch(`${url}/v1/sandboxes/${SANDBOX}/commands`)).status).toBe(401)
    const other = `${url}/v1/sandboxes/${newId.sandbox()}/commands`
    expect((await fetch(other, { headers: authorized })).status).toBe(404)
  })
})

describe("what a hostile sandbox answers", () => {
  const entry = (path: unknown, more: object = {}) => ({
    path,
    kind: "file",
    size: 1,
    mode: 0o644,
    uid: 1000,
    gid: 1000,
    modifiedAtMs: 1,
    etag: '"x"',
    ...more,
  })
  const listing = (...entries: object[]) => JSON.stringify({ entries, cut: false })
  const answers = (body: string | Buffer, status = 200, headers: object = {}) =>
    answering((_, response) => response.writeHead(status, { ...headers }).end(body))

  it("reaches a client as it should be, and without what nobody asked for", async () => {
    const list = [
      ...[entry("a", { kind: "directory" }), entry("a/b"), entry("A")],
      ...[entry({ base64: "/w==" }), entry("l", { kind: "link", target: "../../etc" })],
    ]
    const { call } = await answers(listing(...list), 200, { "content-type": "text/html" })
    const reply = await call("/files/list?path=.")
    expect(await reply.json()).toEqual({ entries: list, cut: false })
    expect(reply.headers.get("content-type")).toBe("application/json; charset=utf-8")
    const ports = { ports: [], isCut: false }
    const { call: callMore } = await answers(JSON.stringify({ ...ports, html: "<script>" }))
    expect(await (await callMore("/ports")).text()).toBe(JSON.stringify(ports))
  })

  it.each([
    ["a name twice", [entry("a", { kind: "link" }), entry("a", { kind: "directory" })]],
    ["a name in two ways", [entry("a"), entry({ base64: "YQ==" })]],
    ["a file below a link", [entry("a", { kind: "link" }), entry("a/b")]],
    ["a path to elsewhere", [entry("../a")]],
    ["a path from the root", [entry("/etc/passwd")]],
    ["a path that leads back", [entry("a/../../b")]],
    ["a folder itself", [entry(".")]],
    ["a NUL", [entry("a\0b")]],
    ["a NUL in bytes", [entry({ base64: "AP8=" })]],
    ["half a character", [entry("\ud800")]],
    ["a name that no disk takes", [entry("a".repeat(256))]],
    ["a mode that is none", [entry("a", { mode: 0o170_000 })]],
    ["a field of its own", [entry("a", { more: "x" })]],
  ])("is no listing with %s", async (_, entries) => {
    const { failure } = await answers(listing(...entries))
    expect(await failure("/files/list?path=.")).toMatchObject({
      status: 502,
      code: "bridge.protocol_violated",
    })
  })

  it.each([
    ["more values than any answer has", `{"entries":[${"{},".repeat(600_000)}{}]}`],
    ["a nest", `{"entries":${"[".repeat(100_000)}`],
    ["no end", Buffer.alloc(17 * 1024 * 1024, " ")],
  ])("ends where it is %s", async (_, body) => {
    const { failure } = await answers(body)
    expect(await failure("/files/list?path=.")).toMatchObject({ code: "bridge.limit_exceeded" })
  })

  it("is looked at no further than its first wrong value", async () => {
    const { failure } = await answers(`{"entries":[${"{},".repeat(200_000)}{}],"cut":false}`)
    const { failure: other } = await answers(
      JSON.stringify({ commands: [{ command: Array(400_000).fill(1) }] }),
    )
    // A schema that names each of them takes seconds, in which nobody else is answered.
    expect(await failure("/files/list?path=.")).toMatchObject({
      code: "bridge.protocol_violated",
      details: { where: "entries" },
    })
    expect(await other("/commands")).toMatchObject({ code: "bridge.protocol_violated" })
  })

  it("is an error that a sandbox can have, in the words of the table, or none", async () => {
    const say = (error: unknown, status = 500) => answers(JSON.stringify(error), status)
    const said = { code: "files.failed", message: "m".repeat(9_000), details: { a: 1 } }
    const { failure } = await say({ ...said, hint: "run curl | sh", retry: "now" }, 418)
    const told = await failure("/files/list?path=.")
    expect(told).toMatchObject({ code: "files.failed", details: { a: 1 } })
    expect([told.status, told.message.length]).toEqual([
      new BerthError("files.failed", "").status,
      4_096,
    ])
    expect(told.hint).toBe(new BerthError("files.failed", "").hint)
    for (const code of ["auth.required", "sandbox.ended", "server.stopping", "else", "__proto__"]) {
      const { failure: fail } = await say({ ...said, code })
      expect(await fail("/commands")).toMatchObject({ code: "bridge.protocol_violated" })
    }
    const { failure: page } = await answers("<html><script>", 500, { "content-type": "text/html" })
    expect(await page("/commands")).toMatchObject({ code: "bridge.protocol_violated" })
    const { failure: much } = await say({ ...said, details: { much: "x".repeat(70_000) } })
    expect(await much("/commands")).toMatchObject({ code: "bridge.limit_exceeded" })
  })

  it("is bytes under the type that the call has, and as long as it says", async () => {
    const html = { "content-type": "text/html", "content-disposition": "inline" }
    const { call } = await answers("<script>", 200, html)
    for (const [path, type] of [
      ["/files/content?path=a", "application/octet-stream"],
      ["/files/archive?path=a", "application/x-tar"],
      ["/git/diff?repo=a", "text/x-diff"],
      ["/git/bundle?repo=a", "application/x-git-bundle"],
    ] as const) {
      const reply = await call(path)
      expect(await reply.text()).toBe("<script>")
      expect(reply.headers.get("content-type")).toBe(type)
      expect(reply.headers.get("x-content-type-options")).toBe("nosniff")
      expect(reply.headers.get("content-disposition")).toBe(null)
    }
    const { call: short } = await saying("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")
    await expect((await short("/files/content?path=a")).text()).rejects.toThrow()
    const part = "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\n\r\nab"
    const { failure } = await saying(part)
    expect(await failure("/files/content?path=a")).toMatchObject({
      code: "bridge.protocol_violated",
    })
  })

  it("is lines of the form, one after the other, and cut off at the first that is not", async () => {
    const found = { type: "file", path: "a" }
    const end = { type: "end", results: 1, cut: false }
    const lines = (...each: unknown[]) => each.map((one) => `${JSON.stringify(one)}\n`).join("")
    const { call } = await answering((_, response) => {
      // In pieces that are no lines.
      for (const byte of lines(found, { ...found, path: "ü" }, end)) response.write(byte)
      response.end()
    })
    expect(await (await call("/files/search?path=.")).text()).toBe(
      lines(found, { ...found, path: "ü" }, end),
    )
    const endless = `{"type":"file","path":"${"x".repeat(300 * 1024)}`
    for (const bad of [lines(found, { ...found, path: 7 }), `${lines(found)}{`, endless, "\n"]) {
      const { call: callBad } = await answers(bad)
      const reply = callBad("/files/search?path=.").then((begun) => begun.text())
      await expect(reply).rejects.toThrow()
    }
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

  it("tell a refusal of any length in a frame that says how long it is", async () => {
    // Each byte that is no text becomes three.
    const bytes = Buffer.alloc(60_000, 0xff).toString("latin1")
    const said = `{"code":"process.not_found","message":"m","details":{"x":"${bytes}"}}`
    const { socket } = await start(
      createPlainServer((sandbox) =>
        sandbox.once("data", () =>
          sandbox.end(`HTTP/1.1 404 No\r\nContent-Length: ${said.length}\r\n\r\n${said}`, "latin1"),
        ),
      ),
    )
    const client = socket("/commands/run", ["berth", `berth.bearer.${TOKEN}`], {})
    const [frame] = await once(client, "message")
    expect(frame.length).toBeGreaterThan(65_536)
    expect(JSON.parse(String(frame)).error.details.x).toBe("\ufffd".repeat(60_000))
    expect((await once(client, "close"))[0]).toBe(1011)
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
        ["GET", "/files/stat"],
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
