import { connect, type Socket } from "node:net"
import { text } from "node:stream/consumers"
import { BerthError, type WireError } from "@berth/protocol/errors"
import { Health, ServerStatus } from "@berth/protocol/health"
import { describe, expect, it } from "vitest"
import type { Limits } from "./limits.ts"
import { listen } from "./listen.ts"
import { stopApi } from "./stop.ts"
import { makeApi, TOKEN } from "./testing/make-api.ts"

const MEASURED = { pid: process.pid, startedAtMs: performance.now() }

const makeLogged = async (limits: Partial<Limits> = {}) => {
  const { api, lines } = await makeApi({ level: "debug", facts: MEASURED, limits })
  return { api, lines: () => lines.map((line) => JSON.parse(line)) }
}

const start = async (limits: Partial<Limits> = {}) => {
  const made = await makeLogged(limits)
  made.api.post("/v1/echo", async (request) => ({ got: request.body }))
  made.api.get("/v1/broken", async () => {
    throw new Error("a secret reason")
  })
  made.api.get("/v1/teapot", async () => {
    throw new BerthError("not_found", "no such thing", { details: { thing: "tea" } })
  })
  made.api.get("/v1/never", () => new Promise(() => {}))
  const url = await listen(made.api, { host: "127.0.0.1", port: 0 })
  const call = (path: string, init: RequestInit = {}) =>
    fetch(url + path, { ...init, headers: { authorization: `Bearer ${TOKEN}`, ...init.headers } })
  const failure = async (path: string, init?: RequestInit) => {
    const reply = await call(path, init)
    const error = (await reply.json()) as WireError
    return { status: reply.status, ...error }
  }
  /** Sends these bytes as they are, and returns everything that comes back. */
  const raw = async (bytes: string) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1")
    socket.write(bytes)
    return await text(socket)
  }
  return { ...made, url, call, failure, raw }
}

describe("health and status", () => {
  it("answers health without a token", async () => {
    const { url } = await start()
    const reply = await fetch(`${url}/v1/health`)
    expect(reply.status).toBe(200)
    expect(Health.parse(await reply.json())).toMatchObject({ version: "1.2.3", pid: process.pid })
  })

  it("answers status only with the token", async () => {
    const { url, call } = await start()
    expect(ServerStatus.parse(await (await call("/v1/status")).json())).toMatchObject({
      dataDir: "/data",
      backend: "embedded",
    })
    const reply = await fetch(`${url}/v1/status`)
    expect(reply.status).toBe(401)
    expect(reply.headers.get("www-authenticate")).toBe("Bearer")
    expect(await reply.json()).toMatchObject({ code: "auth.required", retry: "never" })
  })

  it.each([
    "Bearer wrong",
    `Bearer ${TOKEN}x`,
    `Bearer ${TOKEN.slice(1)}`,
    `Basic ${TOKEN}`,
    TOKEN,
    "Bearer",
    "",
  ])("refuses the authorization %j", async (authorization) => {
    const { failure } = await start()
    expect(await failure("/v1/status", { headers: { authorization } })).toMatchObject({
      status: 401,
      code: "auth.required",
    })
  })

  it("demands the token on a route that says nothing about tokens", async () => {
    const { url } = await start()
    expect((await fetch(`${url}/v1/teapot`)).status).toBe(401)
  })
})

describe("errors", () => {
  it("answers an error of the table with its status, hint and details", async () => {
    const { failure } = await start()
    expect(await failure("/v1/teapot")).toMatchObject({
      status: 404,
      code: "not_found",
      message: "no such thing",
      hint: expect.any(String),
      retry: "never",
      details: { thing: "tea" },
    })
  })

  it("keeps the reason of a defect from the client, and writes it to the log", async () => {
    const { failure, lines } = await start()
    const error = await failure("/v1/broken")
    expect(error).toMatchObject({ status: 500, code: "internal" })
    expect(JSON.stringify(error)).not.toContain("reason")
    expect(lines().at(-1)).toMatchObject({
      level: "error",
      err: { cause: { message: "a secret reason" } },
    })
  })

  it.each([["/nope"], ["/v1/nope?token=abc"], ["/"], ["/v1/health/x"]])(
    "answers the unknown route %s with 404",
    async (path) => {
      const { url } = await start()
      const reply = await fetch(url + path)
      expect(reply.status).toBe(404)
      const body = await reply.text()
      expect(JSON.parse(body)).toMatchObject({ code: "route.unknown" })
      expect(body).not.toContain("abc")
    },
  )

  it("answers an unknown method of a route with route.unknown", async () => {
    const { failure } = await start()
    expect(await failure("/v1/health", { method: "DELETE" })).toMatchObject({
      code: "route.unknown",
    })
  })

  it.each([
    ["a body that is no JSON", "{", "application/json"],
    ["an empty body", "", "application/json"],
    ["a poisoned prototype", '{"__proto__":{"x":1}}', "application/json"],
    ["an unknown content type", "a: 1", "text/yaml"],
  ])("refuses %s", async (_, body, type) => {
    const { failure } = await start()
    const init = { method: "POST", body, headers: { "content-type": type } }
    expect(await failure("/v1/echo", init)).toMatchObject({ status: 400, code: "input.invalid" })
  })

  it("refuses a malformed URL, and bytes that are no HTTP", async () => {
    const { raw } = await start()
    const badUrl = await raw("GET /v1/%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    expect(badUrl).toMatch(/^HTTP\/1\.1 400 /)
    expect(badUrl).toContain('"code":"input.invalid"')
    expect(await raw("hello\r\n\r\n")).toContain('"code":"input.invalid"')
  })
})

describe("limits", () => {
  it("refuses a body above the limit, announced or not", async () => {
    const { failure } = await start({ bodyBytes: 100 })
    const body = JSON.stringify("x".repeat(200))
    const headers = { "content-type": "application/json" }
    const expected = { status: 413, code: "input.too_large", details: { limitBytes: 100 } }
    expect(await failure("/v1/echo", { method: "POST", body, headers })).toMatchObject(expected)
    const stream = new Blob([body]).stream()
    const chunked = { method: "POST", body: stream, headers, duplex: "half" } as RequestInit
    expect(await failure("/v1/echo", chunked)).toMatchObject(expected)
  })

  it("survives the time limit of a body that it refused for its length and never read", async () => {
    const { failure, raw } = await start({ bodyBytes: 100, receiveMs: 1_000 })
    const headers = { "content-type": "application/json" }
    const body = JSON.stringify("x".repeat(1024 * 1024))
    expect(await failure("/v1/echo", { method: "POST", headers, body })).toMatchObject({
      code: "input.too_large",
    })
    // This request's time limit ends after that of the refused one.
    const late = await raw(
      `POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n1`,
    )
    expect(late).toContain("deadline.exceeded")
  })

  it("answers a large body of an unknown type with 400, and then the request behind it", async () => {
    const { raw } = await start()
    const head = `POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: text/yaml\r\n`
    const body = `Content-Length: 2000000\r\n\r\n${"x".repeat(2_000_000)}`
    const behind = "GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    const replies = await raw(head + body + behind)
    expect(replies.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 400", "HTTP/1.1 200"])
  })

  it("refuses a request without the token before its body has arrived", async () => {
    const { raw } = await start()
    const reply = await raw(
      "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
    )
    expect(reply).toMatch(/^HTTP\/1\.1 401 /)
  })

  it("refuses headers above the limit", async () => {
    const { raw } = await start()
    const reply = await raw(`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`)
    expect(reply).toMatch(/^HTTP\/1\.1 413 /)
    expect(reply).toContain('"code":"input.too_large"')
  })

  it.each([
    ["headers do", "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n"],
    [
      "body does",
      `POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n` +
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    ],
  ])("ends a request whose %s not arrive in time", async (_, bytes) => {
    const { raw } = await start({ receiveMs: 100 })
    expect(await raw(bytes)).toContain('"code":"deadline.exceeded"')
  })

  it("answers 504 when a reply does not come in time", async () => {
    const { failure } = await start({ handleMs: 50 })
    expect(await failure("/v1/never")).toMatchObject({ status: 504, code: "deadline.exceeded" })
  })
})

describe("names of this machine", () => {
  it.each([
    ["localhost", 200],
    ["LOCALHOST:1234", 200],
    ["127.0.0.1:80", 200],
    ["[::1]:80", 200],
    ["evil.example", 403],
    ["localhost.evil.example", 403],
    ["evil.example:80@localhost", 403],
    ["localhost:80:evil.example", 403],
    ["127.0.0.1.evil.example", 403],
    ["0.0.0.0", 403],
    ["", 403],
  ])("answers the Host %j with %i", async (host, status) => {
    const { raw } = await start()
    const reply = await raw(`GET /v1/health HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    expect(reply).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    if (status === 403) expect(reply).toContain('"code":"auth.host_refused"')
  })

  it("refuses a request without a Host", async () => {
    const { raw } = await start()
    expect(await raw("GET /v1/health HTTP/1.0\r\n\r\n")).toContain("auth.host_refused")
  })

  it("refuses a foreign Host on unknown routes too, even with the token", async () => {
    const { raw } = await start()
    const reply = await raw(
      `GET /nope HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer ${TOKEN}\r\nConnection: close\r\n\r\n`,
    )
    expect(reply).toContain("auth.host_refused")
  })
})

describe("the log line of a request", () => {
  it("is written once, with route, status, duration and id, and without the query", async () => {
    const { call, lines } = await start()
    const reply = await call("/v1/status?q=private")
    await reply.text()
    expect(lines()).toEqual([
      expect.objectContaining({
        level: "info",
        op: "request.answer",
        outcome: "ok",
        durationMs: expect.any(Number),
        requestId: reply.headers.get("x-request-id"),
        method: "GET",
        route: "/v1/status",
        status: 200,
      }),
    ])
    expect(JSON.stringify(lines())).not.toContain("private")
  })

  it("says that the client left", async () => {
    const { call, lines, api } = await start()
    const abort = new AbortController()
    const arrived = new Promise<void>((resolve) => {
      api.server.once("request", () => resolve())
    })
    const gone = call("/v1/never", { signal: abort.signal }).catch(() => {})
    await arrived
    abort.abort()
    await gone
    await expect.poll(lines).toEqual([expect.objectContaining({ outcome: "cancelled" })])
  })
})

describe("listening and stopping", () => {
  it("names the port that is in use", async () => {
    const { url } = await start()
    const port = Number(new URL(url).port)
    const { api } = await makeApi()
    await expect(listen(api, { host: "127.0.0.1", port })).rejects.toMatchObject({
      code: "server.port_in_use",
      details: { host: "127.0.0.1", port },
      message: expect.stringContaining(String(port)),
    })
  })

  it("reports the system's error when it cannot listen", async () => {
    const { api } = await makeApi()
    // An address reserved for documentation, which no machine has.
    await expect(listen(api, { host: "192.0.2.1" as "::1", port: 0 })).rejects.toMatchObject({
      code: "server.listen_failed",
      details: { host: "192.0.2.1", errno: "EADDRNOTAVAIL" },
    })
  })

  it("listens on 127.0.0.1 alone for the name localhost", async () => {
    const { api } = await makeApi()
    expect(await listen(api, { host: "localhost", port: 0 })).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(api.addresses()).toHaveLength(1)
  })

  it("listens on the loopback address that it was given", async () => {
    const { api } = await start()
    expect(api.server.address()).toMatchObject({ address: "127.0.0.1" })
  })

  it("lets a running request end, and refuses new ones while it stops", async () => {
    const { api, url, call, arrived, finish } = await makeSlow()
    const slow = call("/v1/slow")
    await arrived
    const stopped = stopApi(api, 10_000)
    await expect.poll(() => api.server.listening).toBe(false)
    await expect(fetch(`${url}/v1/health`)).rejects.toThrow()
    finish()
    expect(await (await slow).json()).toBe("done")
    expect(await stopped).toBe(true)
  })

  it("refuses a request whose last byte arrives while it stops", async () => {
    const { api, url } = await start()
    const served = new Promise<Socket>((resolve) => api.server.once("connection", resolve))
    const socket = connect(Number(new URL(url).port), "127.0.0.1")
    const [head, rest] = ["GET /v1/health HTTP/1.1\r\n", "Host: localhost\r\n\r\n"]
    socket.write(head)
    const other = await served
    await expect.poll(() => other.bytesRead).toBe(head.length)
    const stopped = stopApi(api, 10_000)
    await expect.poll(() => api.server.listening).toBe(false)
    socket.write(rest)
    expect(await text(socket)).toMatch(/^HTTP\/1.1 503 .*"code":"server.stopping"/s)
    expect(await stopped).toBe(true)
  })

  it("cuts off a request that does not end within the grace period", async () => {
    const { api, call } = await start()
    const arrived = new Promise((resolve) => api.server.once("request", resolve))
    const never = call("/v1/never")
    await arrived
    const stopped = stopApi(api, 50)
    await expect(never).rejects.toThrow()
    expect(await stopped).toBe(false)
  })

  it("can be stopped twice", async () => {
    const { api } = await start()
    expect(await Promise.all([stopApi(api, 1_000), stopApi(api, 1_000)])).toEqual([true, true])
  })
})

/** A server with a route that answers once `finish` is called. */
const makeSlow = async () => {
  const { api } = await makeApi()
  const finished = Promise.withResolvers<void>()
  const arrived = Promise.withResolvers<void>()
  api.get("/v1/slow", async () => {
    arrived.resolve()
    await finished.promise
    return JSON.stringify("done")
  })
  const url = await listen(api, { host: "127.0.0.1", port: 0 })
  const call = (path: string) =>
    fetch(url + path, { headers: { authorization: `Bearer ${TOKEN}` } })
  return { api, url, call, arrived: arrived.promise, finish: finished.resolve }
}
