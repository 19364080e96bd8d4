import { createServer, type RequestListener, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { createClient } from "./client.ts"

const SESSION = newId.session()
const PROMPT = newId.prompt()

type Listener = (...given: Parameters<RequestListener>) => void | Promise<void>

const serve = async (listener: Listener) => {
  const server = createServer((...given) => void listener(...given))
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return createClient({ url, token: "t" }).sessions.at(SESSION)
}

const frame = (sequence: number, body?: EventBody): string => {
  const said = body ?? { type: "message.delta", prompt: PROMPT, message: "m", text: `${sequence}` }
  const data = JSON.stringify({ sequence, at: new Date(0).toISOString(), body: said })
  return `id: ${sequence}\nevent: ${said.type}\ndata: ${data}\n\n`
}

/** Answers each connection with the next of these turns, and further ones with the last. */
const inTurn = (...turns: ((reply: ServerResponse) => void)[]) => {
  const asked: unknown[] = []
  const listener: RequestListener = (request, reply) => {
    const turn = turns[Math.min(asked.length, turns.length - 1)]
    asked.push(request.headers["last-event-id"])
    turn?.(reply)
  }
  return { asked, listener }
}

const refuse = (error: BerthError) => (reply: ServerResponse) =>
  void reply.writeHead(error.status).end(JSON.stringify(error))

describe("the events of a session", () => {
  it("[R3.2] come once each and in order, wherever the connection breaks", async () => {
    // Each break comes soon after an event: the wait for the next attempt begins anew with every event.
    const { asked, listener } = inTurn(
      (reply) => void reply.end(frame(1) + frame(2)),
      refuse(new BerthError("server.stopping", "the server is stopping")),
      // The connection breaks within an event, at every kind of place.
      (reply) => void reply.end(`${frame(3)}id: 4\nevent: message.del`),
      (reply) => void reply.destroy(),
      (reply) => void reply.end(frame(4) + frame(5).slice(0, -20)),
      (reply) => void reply.end(frame(5) + frame(6).slice(0, -2)),
      (reply) => void reply.write(frame(6) + frame(7).slice(0, 50), () => reply.destroy()),
      (reply) => void reply.write(`: still here\n\n${frame(7)}: still here\n\n${frame(8)}`),
    )
    const session = await serve(listener)
    const breaks: string[] = []
    const seen: number[] = []
    for await (const { sequence } of session.events({ onBreak: ({ code }) => breaks.push(code) })) {
      seen.push(sequence)
      if (sequence === 8) break
    }
    expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    expect(asked).toEqual(["0", "2", "2", "3", "3", "4", "5", "6"])
    expect(new Set(breaks)).toEqual(new Set(["server.stopping", "server.unreachable"]))
    expect(breaks).toHaveLength(7)
  })

  it("go on after a given number, and end their connection with their reader", async () => {
    const closed = Promise.withResolvers<void>()
    const { asked, listener } = inTurn((reply) => {
      reply.once("close", closed.resolve)
      reply.write(frame(8))
    })
    for await (const { sequence } of (await serve(listener)).events({ after: 7 })) {
      expect(sequence).toBe(8)
      break
    }
    await closed.promise
    expect(asked).toEqual(["7"])
  })

  it("are asked for again when the server has been silent for long", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    onTestFinished(() => void vi.useRealTimers())
    const { asked, listener } = inTurn(
      (reply) => void reply.write(frame(1)),
      (reply) => void reply.write(frame(2)),
    )
    const events = (await serve(listener)).events()[Symbol.asyncIterator]()
    expect(await events.next()).toMatchObject({ value: { sequence: 1 } })
    let second: unknown
    void events.next().then(({ value }) => {
      second = value
    })
    let passedMs = 0
    for (; second === undefined; passedMs += 100) {
      await vi.advanceTimersByTimeAsync(100)
      await new Promise(setImmediate)
    }
    expect(second).toMatchObject({ sequence: 2 })
    // Longer than a server is silent, and sooner than the platform gives up.
    expect(passedMs).toBeGreaterThan(15_000)
    expect(passedMs).toBeLessThan(60_000)
    expect(asked).toEqual(["0", "1"])
    await events.return?.()
  })

  it.each([
    new BerthError("session.unknown", "there is no such session"),
    new BerthError("auth.required", "the API token is not the right one"),
  ])("give up without another try on $code", async (error) => {
    const { asked, listener } = inTurn((reply) => void reply.end(frame(1)), refuse(error))
    await expect(reading(await serve(listener))).rejects.toMatchObject({
      code: error.code,
      message: error.message,
    })
    expect(asked).toEqual(["0", "1"])
  })

  it.each([
    ["a gap", frame(1) + frame(3)],
    ["a repeat", frame(1) + frame(1)],
    ["data that is no event", "data: {}\n\n"],
    ["data that is no JSON", "data: {\n\n"],
  ])("are refused with %s", async (_, sent) => {
    const { asked, listener } = inTurn((reply) => void reply.write(sent))
    await expect(reading(await serve(listener))).rejects.toMatchObject({
      code: "server.reply_invalid",
    })
    expect(asked).toHaveLength(1)
  })

  it("may leave out events that the log marks as a gap", async () => {
    const gap = frame(5, { type: "gap", reason: "it was older than is kept" })
    const { listener } = inTurn((reply) => void reply.write(gap + frame(6)))
    const seen: number[] = []
    for await (const { sequence } of (await serve(listener)).events()) {
      seen.push(sequence)
      if (sequence === 6) break
    }
    expect(seen).toEqual([5, 6])
  })

  it("end when the signal fires: while they come, while the connection is broken, and before they begin", async () => {
    const abort = new AbortController()
    const { listener } = inTurn(
      (reply) => void reply.write(frame(1)),
      refuse(new BerthError("server.stopping", "the server is stopping")),
    )
    const session = await serve(listener)
    const first = session.events({ signal: abort.signal })[Symbol.asyncIterator]()
    await first.next()
    const coming = first.next()
    const broken = Promise.withResolvers<void>()
    const waited = session.events({ signal: abort.signal, onBreak: () => broken.resolve() })
    const waiting = waited[Symbol.asyncIterator]().next()
    const ended = Promise.all(
      [coming, waiting].map((each) => expect(each).rejects.toMatchObject({ code: "cancelled" })),
    )
    await broken.promise
    abort.abort()
    await ended
    await expect(reading(session, abort.signal)).rejects.toMatchObject({ code: "cancelled" })
  })
})

/** Reads a session's events until they end. */
const reading = async (session: Awaited<ReturnType<typeof serve>>, signal?: AbortSignal) => {
  for await (const _ of session.events({ signal }));
}

describe("a session", () => {
  it("sends the request of each of its methods", async () => {
    const asked: unknown[] = []
    const session = await serve(async (request, reply) => {
      const body = await text(request)
      const what = `${request.method} ${request.url}`
      asked.push([what, body === "" ? undefined : JSON.parse(body)])
      const answer = ANSWERS[what.replace(/\/v1.*\//, "")]
      reply.writeHead(answer === undefined ? 204 : 200).end(JSON.stringify(answer))
    })
    const at = `/v1/sessions/${SESSION}`
    const attachments = [
      { name: "a.txt", content: "é" },
      { name: "b.bin", content: new Uint8Array([0, 255]) },
    ]
    const options = { key: "k", deadlineMs: 5_000, attachments }
    expect(await session.prompt("do it", options)).toMatchObject({ id: PROMPT, state: "queued" })
    expect(await session.prompts()).toEqual([PROMPT_VIEW])
    expect(await session.stop()).toEqual([PROMPT])
    expect(await session.stop({ prompt: PROMPT })).toEqual([PROMPT])
    await session.answer({ kind: "question", ask: "q", answer: null })
    expect(await session.messages()).toEqual({ lastEvent: 0, turns: [] })
    await session.close()
    await session.remove()
    await session.remove({ force: true })
    const sent = {
      text: "do it",
      key: "k",
      deadlineMs: 5_000,
      attachments: [
        { name: "a.txt", content: "w6k=" },
        { name: "b.bin", content: "AP8=" },
      ],
    }
    expect(asked).toEqual([
      [`POST ${at}/prompts`, sent],
      [`GET ${at}/prompts`, undefined],
      [`POST ${at}/stop`, {}],
      [`POST ${at}/stop`, { prompt: PROMPT }],
      [`POST ${at}/answers`, { kind: "question", ask: "q", answer: null }],
      [`GET ${at}/messages`, undefined],
      [`POST ${at}/close`, undefined],
      [`DELETE ${at}?force=false`, undefined],
      [`DELETE ${at}?force=true`, undefined],
    ])
  })

  it("runs a prompt whose end is among the events that are no longer kept", async () => {
    const asked: string[] = []
    const session = await serve((request, reply) => {
      const what = `${request.method} ${request.url}`.replace(/\/v1.*\//, "")
      asked.push(what)
      if (what === "GET events") return void reply.write(frame(9, { type: "gap", reason: "old" }))
      const ended = { ...PROMPT_VIEW, state: "stopped", reason: "by a person" }
      const answer = what === "GET prompts" ? { prompts: [ended] } : ANSWERS[what]
      reply.end(JSON.stringify(answer ?? SESSION_VIEW))
    })
    expect(await session.run("do it")).toEqual({
      prompt: PROMPT,
      state: "stopped",
      reason: "by a person",
      text: "",
    })
    expect(asked.slice(1)).toEqual(["POST prompts", "GET events", "GET prompts"])
  })

  it("stops the prompt that it runs when its caller gives up", async () => {
    const abort = new AbortController()
    const stopped: unknown[] = []
    const session = await serve(async (request, reply) => {
      const what = `${request.method} ${request.url}`.replace(/\/v1.*\//, "")
      if (what === "GET events") return void reply.write(frame(1))
      if (what === "POST stop") stopped.push(JSON.parse(await text(request)))
      reply.end(JSON.stringify(ANSWERS[what] ?? SESSION_VIEW))
    })
    const running = session.run("do it", { signal: abort.signal, onEvent: () => abort.abort() })
    await expect(running).rejects.toMatchObject({ code: "cancelled" })
    expect(stopped).toEqual([{ prompt: PROMPT }])
  })

  it("is refused for a malformed id", () => {
    const { sessions } = createClient({ url: "http://127.0.0.1:1" })
    expect(() => sessions.at("../status")).toThrow("is not the id of a session")
  })
})

const PROMPT_VIEW = {
  id: PROMPT,
  session: SESSION,
  number: 1,
  text: "do it",
  attachments: [],
  state: "queued",
  reason: null,
  sandbox: null,
  deadlineMs: null,
  createdAt: new Date(0).toISOString(),
  startedAt: null,
  endedAt: null,
  continues: null,
  waitsFor: null,
}

const SESSION_VIEW = {
  id: SESSION,
  workspace: "app",
  agent: { kind: "shell" },
  state: "open",
  onInterrupt: "wait",
  createdAt: new Date(0).toISOString(),
  lastEvent: 0,
  pending: [],
  asks: [],
  waitsFor: null,
}

const ANSWERS: Readonly<Record<string, unknown>> = {
  "POST prompts": PROMPT_VIEW,
  "GET prompts": { prompts: [PROMPT_VIEW] },
  "POST stop": { prompts: [PROMPT] },
  "GET messages": { lastEvent: 0, turns: [] },
}
