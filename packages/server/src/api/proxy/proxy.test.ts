import { once } from "node:events"
import { createServer } from "node:http"
import { connect, createServer as createPlainServer } from "node:net"
import { text } from "node:stream/consumers"
import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished } from "vitest"
import { WebSocketServer } from "ws"
import { TOKEN } from "../testing/make-api.ts"
import { answering, authorized, INSIDE, SANDBOX, saying, start } from "./testing/played-sandbox.ts"

const DENIED = JSON.stringify({ code: "files.denied", message: "no", details: {} })
const UNASKED_UPGRADE = "HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"

describe("requests to a sandbox", () => {
  it("pass with path, query, body and the sandbox's token, and drop unknown headers both ways", async () => {
    const seen: unknown[] = []
    const { call } = await answering((request, response) => {
      void text(request).then((body) => {
        seen.push({ method: request.method, url: request.url, headers: request.headers, body })
        response.writeHead(206, {
          "content-range": "bytes 0-1/9",
          etag: '"x"',
          "set-cookie": "a=b",
          "content-type": "text/html",
          "access-control-allow-origin": "*",
          location: "http://example.com",
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

  it("carry a body of 64 MiB no faster than the sandbox reads it", async () => {
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
    // While the sandbox does not read, only the system's buffers fill.
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

  it("end in the sandbox when the client leaves, and fail for the client when the sandbox breaks off", async () => {
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
  ])("fail with an error of the table when the sandbox answers with %s", async (_, bytes, code) => {
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
  ])(
    "pass an early answer %s to a client that sends its whole body before it reads",
    async (_, bytes, expected) => {
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
    },
  )

  it("fail when the sandbox has ended, without waiting for it", async () => {
    const { failure } = await start(
      createServer(() => {}),
      "exited",
    )
    expect(await failure("/commands")).toMatchObject({ code: "backend.unknown_sandbox" })
  })

  it("reach only what sandboxes serve to clients, and only with the token and a known sandbox", async () => {
    const { call, url } = await answering((_, response) => response.end("reached"))
    expect(await (await call("/files/content?path=a")).text()).toBe("reached")
    const others = ["/bridge", "/health", "/bundles/x", "/activity", "/activity?after=1&wait=1"]
    for (const path of [...others, "/commandsx", "/%63ommands", "/files/else", "/commands/x/y"])
      expect((await call(path)).status).toBe(404)
    expect((await fetch(`${url}/v1/sandboxes/${SANDBOX}/commands`)).status).toBe(401)
    const other = `${url}/v1/sandboxes/${newId.sandbox()}/commands`
    expect((await fetch(other, { headers: authorized })).status).toBe(404)
  })
})

describe("the answer of a hostile sandbox", () => {
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

  it("reaches a client as JSON of the call's form, without unknown fields", async () => {
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
    ["one name twice", [entry("a", { kind: "link" }), entry("a", { kind: "directory" })]],
    ["one name in two encodings", [entry("a"), entry({ base64: "YQ==" })]],
    ["a file below a link", [entry("a", { kind: "link" }), entry("a/b")]],
    ["a path that leads out", [entry("../a")]],
    ["an absolute path", [entry("/etc/passwd")]],
    ["a path that leads up on its way", [entry("a/../../b")]],
    ["the listed folder itself", [entry(".")]],
    ["a NUL", [entry("a\0b")]],
    ["a NUL in bytes", [entry({ base64: "AP8=" })]],
    ["half a surrogate pair", [entry("\ud800")]],
    ["a name of 256 characters", [entry("a".repeat(256))]],
    ["a mode beyond the permission bits", [entry("a", { mode: 0o170_000 })]],
    ["an unknown field", [entry("a", { more: "x" })]],
  ])("is refused as a listing with %s", async (_, entries) => {
    const { failure } = await answers(listing(...entries))
    expect(await failure("/files/list?path=.")).toMatchObject({
      status: 502,
      code: "bridge.protocol_violated",
    })
  })

  it.each([
    ["more values than any answer has", `{"entries":[${"{},".repeat(600_000)}{}]}`],
    ["100,000 levels", `{"entries":${"[".repeat(100_000)}`],
    ["17 MiB", Buffer.alloc(17 * 1024 * 1024, " ")],
  ])("is refused with %s", async (_, body) => {
    const { failure } = await answers(body)
    expect(await failure("/files/list?path=.")).toMatchObject({ code: "bridge.limit_exceeded" })
  })

  it("is refused at its first wrong value", async () => {
    const { failure } = await answers(`{"entries":[${"{},".repeat(200_000)}{}],"cut":false}`)
    const { failure: other } = await answers(
      JSON.stringify({ commands: [{ command: Array(400_000).fill(1) }] }),
    )
    // A schema that names every wrong value takes seconds, in which no other client is answered.
    expect(await failure("/files/list?path=.")).toMatchObject({
      code: "bridge.protocol_violated",
      details: { where: "entries" },
    })
    expect(await other("/commands")).toMatchObject({ code: "bridge.protocol_violated" })
  })

  it("becomes an error only under a code that a sandbox can have, with the table's status and hint", async () => {
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

  it("is bytes of the call's own type, and fails when it is cut short or is a part unasked", async () => {
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

  it("is passed on line by line, and breaks off at the first line of the wrong form", async () => {
    const found = { type: "file", path: "a" }
    const end = { type: "end", results: 1, cut: false }
    const lines = (...each: unknown[]) => each.map((one) => `${JSON.stringify(one)}\n`).join("")
    const { call } = await answering((_, response) => {
      // Written character by character, so that no piece is a line.
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

describe("a use of a sandbox", () => {
  it("[R1.7] is claimed under the kind of its call, and ends with the call", async () => {
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
    // A background command and a terminal continue: they get leases of their own before this use ends.
    expect(uses.left).toBe(2)
  })

  it("[R1.7] lasts as long as its WebSocket", async () => {
    const server = createServer()
    new WebSocketServer({ server })
    const { socket, uses } = await start(server)
    const client = socket("/terminals/x/attach")
    await once(client, "open")
    expect([...uses.open]).toMatchObject([{ kind: "terminal" }])
    client.close()
    await expect.poll(() => uses.open.size).toBe(0)
  })
})
