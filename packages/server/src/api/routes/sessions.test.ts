import { once } from "node:events"
import { get, type IncomingMessage } from "node:http"
import { text } from "node:stream/consumers"
import { setImmediate as soon } from "node:timers/promises"
import { MAX_PROMPT_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS } from "@berth/protocol/session-limits"
import { describe, expect, it, onTestFinished } from "vitest"
import type { StreamPage } from "../../events/pages.ts"
import type { Sessions } from "../../sessions/sessions.ts"
import type { Limits } from "../limits.ts"
import { stopApi } from "../stop.ts"
import { serveApi, TOKEN } from "../testing/make-api.ts"

const SESSION = newId.session()
const PROMPT = newId.prompt()

/** The API, on loopback, in front of sessions that only record their calls. */
const start = async (over: Partial<Sessions> = {}, limits: Partial<Limits> = {}) => {
  const asked: unknown[][] = []
  const told =
    (name: string, answer?: unknown) =>
    async (...given: unknown[]) => {
      asked.push([name, ...given.filter((each) => !(each instanceof AbortSignal))])
      return answer
    }
  const sessions = {
    create: told("create", { id: SESSION }),
    list: told("list", []),
    get: told("get", {}),
    close: told("close", {}),
    remove: told("remove"),
    prompt: told("prompt", { id: PROMPT }),
    prompts: told("prompts", []),
    stop: told("stop", [PROMPT]),
    answer: told("answer"),
    transcript: told("transcript", { lastEvent: 0, turns: [] }),
    ...over,
  } as unknown as Sessions
  const served = await serveApi({ level: "info", sessions: async () => sessions, limits })
  const { api, lines } = served
  const url = `${served.url}/v1/sessions`
  const authorization = `Bearer ${TOKEN}`
  const call = async (method: string, path: string, body?: unknown, headers = {}) => {
    const json = body !== undefined && { "content-type": "application/json" }
    const reply = await fetch(url + path, {
      method,
      headers: { authorization, ...json, ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const answer = await reply.text()
    const { status } = reply
    return { status, body: answer === "" ? undefined : JSON.parse(answer), headers: reply.headers }
  }
  /** Opens the stream of events and reads nothing of it. */
  const open = async (query = "", headers = {}): Promise<IncomingMessage> => {
    const request = get(`${url}/${SESSION}/events${query}`, {
      headers: { authorization, ...headers },
      agent: false,
    })
    const [reply] = (await once(request, "response")) as [IncomingMessage]
    reply.on("error", () => {})
    onTestFinished(() => void reply.destroy())
    return reply
  }
  return { api, asked, call, open, lines: () => lines.map((line) => JSON.parse(line)) }
}

const at = (path: string) => `/${SESSION}${path}`

describe("the API of sessions", () => {
  it("creates a session and names its location", async () => {
    const { asked, call } = await start()
    const made = await call("POST", "", { workspace: "app" })
    expect(made).toMatchObject({ status: 201, body: { id: SESSION } })
    expect(made.headers.get("location")).toBe(`/v1/sessions/${SESSION}`)
    expect(asked).toEqual([["create", { workspace: "app", replace: false, onInterrupt: "wait" }]])
  })

  it("lists, shows, closes and removes sessions, stops prompts, answers asks and shows turns", async () => {
    const { asked, call } = await start()
    const permission = { kind: "permission", ask: "a1", allow: true }
    expect(await call("GET", "")).toMatchObject({ status: 200, body: { sessions: [] } })
    expect(await call("GET", at(""))).toMatchObject({ status: 200 })
    expect(await call("POST", at("/close"))).toMatchObject({ status: 204, body: undefined })
    expect(await call("DELETE", at(""))).toMatchObject({ status: 204, body: undefined })
    expect(await call("DELETE", at("?force=true"))).toMatchObject({ status: 204 })
    expect(await call("GET", at("/prompts"))).toMatchObject({ body: { prompts: [] } })
    expect(await call("POST", at("/stop"))).toMatchObject({ body: { prompts: [PROMPT] } })
    expect(await call("POST", at("/stop"), { prompt: PROMPT })).toMatchObject({ status: 200 })
    expect(await call("POST", at("/answers"), permission)).toMatchObject({ status: 204 })
    expect(await call("GET", at("/messages"))).toMatchObject({ body: { turns: [] } })
    expect(asked).toEqual([
      ["list"],
      ["get", SESSION],
      ["close", SESSION],
      ["remove", SESSION, { force: false }],
      ["remove", SESSION, { force: true }],
      ["prompts", SESSION],
      ["stop", SESSION, {}],
      ["stop", SESSION, { prompt: PROMPT }],
      ["answer", SESSION, permission],
      ["transcript", SESSION],
    ])
  })

  it("[R3.1] accepts a prompt with 202, with its key from the body or the header", async () => {
    const { asked, call } = await start()
    const text = "do it"
    const header = { "idempotency-key": "k2" }
    for (const [body, headers] of [
      [{ text }, {}],
      [{ text, key: "k1" }, {}],
      [{ text }, header],
      [{ text, key: "k1" }, header],
    ])
      expect(await call("POST", at("/prompts"), body, headers)).toMatchObject({
        status: 202,
        body: { id: PROMPT },
      })
    const keys = asked.map(([, , prompt]) => (prompt as { key?: string }).key)
    expect(keys).toEqual([undefined, "k1", "k2", "k1"])
  })

  it("accepts the largest prompt that is allowed, and refuses a larger one", async () => {
    const { asked, call } = await start()
    const each = Buffer.alloc(MAX_ATTACHMENT_BYTES / MAX_ATTACHMENTS).toString("base64")
    const name = "n".repeat(200)
    const attachments = Array.from({ length: MAX_ATTACHMENTS }, (_, index) => {
      return { name: `${name}${index}`, content: each.slice(0, each.length - 4) }
    })
    const largest = { text: "\0".repeat(MAX_PROMPT_CHARS), attachments }
    expect(await call("POST", at("/prompts"), largest)).toMatchObject({ status: 202 })
    const longer = { ...largest, text: `${largest.text}x` }
    expect(await call("POST", at("/prompts"), longer)).toMatchObject({
      status: 400,
      body: { code: "input.invalid", details: { path: "text" } },
    })
    const huge = { ...largest, more: "x".repeat(4 * 1024 * 1024) }
    expect(await call("POST", at("/prompts"), huge)).toMatchObject({
      status: 413,
      body: { code: "input.too_large" },
    })
    expect(asked).toHaveLength(1)
  })

  it.each([
    ["POST", "", { workspace: "Not A Slug" }],
    ["POST", "", {}],
    ["POST", at("/prompts"), { text: "" }],
    ["POST", at("/prompts"), { text: "x", attachments: [{ name: "../x", content: "" }] }],
    ["POST", at("/prompts"), { text: "x", deadlineMs: 1 }],
    ["POST", at("/stop"), { prompt: "x" }],
    ["POST", at("/answers"), { kind: "permission", ask: "a" }],
    ["GET", at("/events?after=-1"), undefined],
    ["GET", at("/events?after=soon"), undefined],
  ])("refuses %s %s with %j", async (method, path, body) => {
    const { asked, call } = await start()
    expect(await call(method, path, body)).toMatchObject({
      status: 400,
      body: { code: "input.invalid" },
    })
    expect(asked).toEqual([])
  })

  it("answers 404 to an id of the wrong form", async () => {
    const { asked, call } = await start()
    for (const path of ["/x", "/x/prompts", "/x/messages", "/x/events"])
      expect(await call("GET", path)).toMatchObject({
        status: 404,
        body: { code: "session.unknown" },
      })
    expect(asked).toEqual([])
  })
})

const frame = (sequence: number, filler = ""): string => {
  const body = { type: "warning", message: `${sequence}${filler}` }
  const json = JSON.stringify({ sequence, at: new Date(0).toISOString(), body })
  return `id: ${sequence}\nevent: warning\ndata: ${json}\n\n`
}

const page = (first: number, last = first, filler = ""): StreamPage => {
  const numbers = Array.from({ length: last - first + 1 }, (_, place) => first + place)
  return { last, pieces: numbers.map((number) => Buffer.from(frame(number, filler))) }
}

/** The events up to that number, and then none until the reader leaves. */
const only = (last: number): Sessions["events"] => {
  return async (_session, after, signal) =>
    (async function* () {
      if (last > after) yield page(after + 1, last)
      if (!signal.aborted) await once(signal, "abort")
    })()
}

describe("the stream of events", () => {
  it("[R3.2] sends the events after the last number that the client saw", async () => {
    const { open } = await start({ events: only(3) })
    for (const [query, headers, first] of [
      ["", {}, 1],
      ["?after=1", {}, 2],
      ["", { "last-event-id": "2" }, 3],
      ["?after=1", { "last-event-id": "2" }, 3],
    ] as const) {
      const reply = await open(query, headers)
      expect(reply.headers["content-type"]).toBe("text/event-stream; charset=utf-8")
      const [bytes] = await once(reply, "data")
      const wanted = [1, 2, 3].filter((number) => number >= first).map((number) => frame(number))
      expect(String(bytes)).toBe(wanted.join(""))
      reply.destroy()
    }
  })

  it("answers with the error's status when the events cannot be opened", async () => {
    const unknown = new BerthError("session.unknown", "there is no such session")
    const { call } = await start({ events: () => Promise.reject(unknown) })
    expect(await call("GET", at("/events"))).toMatchObject({
      status: 404,
      body: { code: "session.unknown" },
    })
  })

  it("sends heartbeats while no event comes, beyond the deadline of other requests", async () => {
    const { open } = await start({ events: only(0) }, { heartbeatMs: 20, handleMs: 50 })
    const reply = await open()
    for (let beats = 0; beats < 5; beats += 1)
      expect(String((await once(reply, "data"))[0])).toMatch(/^(: still here\n\n)+$/)
  })

  it("stops reading events when the client leaves, and logs one line", async () => {
    const gone = Promise.withResolvers<void>()
    const { open, lines } = await start({
      events: async (_session, _after, signal) => {
        signal.addEventListener("abort", () => gone.resolve())
        return await only(0)(SESSION, 0, signal)
      },
    })
    const reply = await open()
    reply.destroy()
    await gone.promise
    await expect.poll(lines).toMatchObject([{ route: "/v1/sessions/:id/events" }])
  })

  it("[R3.2] reads at most 32 MiB ahead of a client that does not read, and continues when it reads", async () => {
    const filler = "x".repeat(64 * 1024)
    const { open } = await start({ events: endless(filler) })
    const reply = await open()
    await untilStuck()
    const buffered = pulled
    expect(buffered * filler.length).toBeLessThan(32 * 1024 * 1024)
    reply.on("data", () => {})
    await expect.poll(() => pulled).toBeGreaterThan(buffered + 100)
  })

  it("does not hold up the server's stop, whether the client reads or not", async () => {
    const { api, open } = await start({ events: endless("x".repeat(64 * 1024)) })
    const idle = await open()
    await untilStuck()
    const read = await open()
    read.on("data", () => {})
    const before = pulled
    await expect.poll(() => pulled).toBeGreaterThan(before + 100)
    const startedMs = performance.now()
    expect(await stopApi(api, 20_000)).toBe(true)
    expect(performance.now() - startedMs).toBeLessThan(10_000)
    idle.resume()
    await expect.poll(() => [idle, read].every(({ closed }) => closed)).toBe(true)
  })

  it("ends in order at the server's stop when no event is pending", async () => {
    const { api, open } = await start({ events: only(1) })
    const reply = await open()
    const [bytes] = await once(reply, "data")
    expect(String(bytes)).toContain("id: 1\n")
    const rest = text(reply)
    expect(await stopApi(api, 20_000)).toBe(true)
    expect(await rest).toBe("")
  })

  it("breaks off when the events fail, and the log says why", async () => {
    const { open, lines } = await start({
      events: async () =>
        (async function* () {
          yield page(1)
          throw new BerthError("store.io", "the disk is gone")
        })(),
    })
    const reply = await open()
    await expect(text(reply)).rejects.toThrow()
    await expect.poll(lines).toMatchObject([{ code: "store.io" }])
  })
})

/** How many events the latest endless stream has given. */
let pulled = 0

/** Waits until the buffers between the server and a client that does not read are full. */
const untilStuck = async () => {
  let before = -1
  const isStuck = () => {
    const isStill = pulled > 0 && pulled === before
    before = pulled
    return isStill
  }
  await expect.poll(isStuck).toBe(true)
}

/** Events without end, as fast as they are read. */
const endless = (filler: string): Sessions["events"] => {
  pulled = 0
  return async (_session, _after, signal) =>
    (async function* () {
      for (let number = 1; !signal.aborted; number += 1) {
        pulled += 1
        yield page(number, number, filler)
        await soon()
      }
    })()
}
