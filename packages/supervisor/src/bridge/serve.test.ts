import { spawn } from "node:child_process"
import { once } from "node:events"
import { lstatSync, writeFileSync } from "node:fs"
import { createServer, connect as dial, type Socket } from "node:net"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { SupervisorHealth } from "@berth/protocol/bridge"
import { CLOSE } from "@berth/protocol/bridge-limits"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished } from "vitest"
import type { Journal } from "../journal/journal.ts"
import { temporaryDirectory } from "../journal/testing/events.ts"
import type { Inside } from "./inside.ts"
import { serveBridge } from "./serve.ts"
import {
  AUTHORIZED,
  appendMany,
  connect,
  get,
  helloTo,
  serve,
  TOKEN,
} from "./testing/supervisor.ts"

/** More connections than the socket takes at a time. */
const CROWD = 2_100

const upTo = (last: number, first = 1) =>
  Array.from({ length: last - first + 1 }, (_, place) => first + place)

describe("the sandbox's socket", () => {
  it("[R2.12] answers for its health and its boot before the rest is loaded", async () => {
    const { path, sandbox } = await serve({
      inside: new Promise(() => {}),
      boot: () => ({ a: 1 }),
    })
    const health = await get(path, "/health")
    expect(health.status).toBe(200)
    expect(SupervisorHealth.parse(JSON.parse(health.body))).toMatchObject({
      generation: 1,
      sandbox,
      ready: false,
      prompts: 0,
    })
    expect(await get(path, "/boot")).toEqual({ status: 200, body: '{"a":1}' })
  })

  it.each(["/health", "/boot", "/bridge", "/else"])("refuses %s without the token", async (url) => {
    const { path } = await serve()
    for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: TOKEN }])
      expect(await get(path, url, { headers })).toEqual({ status: 401, body: "" })
  })

  it("answers other paths and methods with 404, and stays up when a document fails", async () => {
    const { path, faults } = await serve({
      boot: () => {
        throw new Error("no trace")
      },
    })
    for (const url of ["/", "/else", "/bridge"])
      expect(await get(path, url)).toEqual({ status: 404, body: "" })
    expect(await get(path, "/health", { method: "POST" })).toMatchObject({ status: 404 })
    expect(await get(path, "/boot")).toMatchObject({ status: 500 })
    expect(faults).toEqual(["internal"])
    expect(await get(path, "/health")).toMatchObject({ status: 200 })
  })

  it("refuses an upgrade without the token, or to another path", async () => {
    const { path } = await serve()
    await expect(connect(path, {}).opened).rejects.toThrow("401")
    const { websocket } = connect(path)
    await once(websocket, "open")
    const elsewhere = await get(path, "/else", {
      headers: { ...AUTHORIZED, connection: "upgrade", upgrade: "websocket" },
    })
    expect(elsewhere.status).toBe(404)
  })

  it("is for its owner alone, and replaces an earlier supervisor's socket", async () => {
    const { path, sandbox } = await serve()
    expect(lstatSync(path).mode & 0o077).toBe(0)
    // A killed supervisor leaves its socket's file, which must go before the next one binds its own.
    const second = await serveBridge({
      listen: [{ path }],
      token: TOKEN,
      sandbox,
      health: () => ({ ready: true, prompts: 0 }),
      boot: () => null,
      inside: new Promise(() => {}),
      onFault: () => {},
    })
    expect(JSON.parse((await get(path, "/health")).body)).toMatchObject({ ready: true })
    await Promise.all([second.close(), second.close()])
  })

  it("does not remove a file that is no socket, and says why it cannot listen", async () => {
    const path = join(temporaryDirectory(), "socket")
    writeFileSync(path, "precious")
    await expect(serve({ listen: [{ path }] })).rejects.toMatchObject({
      code: "bridge.listen_failed",
      details: { path, systemSaid: expect.stringContaining("EADDRINUSE") },
    })
    expect(lstatSync(path).isFile()).toBe(true)
  })

  it("can be a port as well", async () => {
    const path = join(temporaryDirectory(), "socket")
    const { server } = await serve({ listen: [{ path }, { host: "127.0.0.1", port: 0 }] })
    const [unix, tcp] = server.addresses
    expect(unix).toBe(path)
    const { port } = tcp as { port: number }
    const response = await fetch(`http://127.0.0.1:${port}/health`, { headers: AUTHORIZED })
    expect(response.status).toBe(200)
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(401)
  })

  it("answers a client with the token while 2,100 connections without it are open", async () => {
    const { server } = await serve({ listen: [{ host: "127.0.0.1", port: 0 }] })
    const { port } = server.addresses[0] as { port: number }
    const crowd: Socket[] = []
    onTestFinished(() => {
      for (const socket of crowd) socket.destroy()
    })
    while (crowd.length < CROWD) {
      const socket = dial(port, "127.0.0.1").on("error", () => {})
      crowd.push(socket)
      await once(socket, "connect")
      // Some say the half of a request, others nothing.
      if (crowd.length % 2 === 0) socket.write("GET /health HTTP/1.1\r\n")
    }
    const url = `http://127.0.0.1:${port}/health`
    expect((await fetch(url, { headers: AUTHORIZED })).status).toBe(200)
  })

  it("listens on all of its addresses, or on none", async () => {
    const taken = createServer().listen(0, "127.0.0.1")
    await once(taken, "listening")
    onTestFinished(() => void taken.close())
    const { port } = taken.address() as { port: number }
    const path = join(temporaryDirectory(), "socket")
    await expect(serve({ listen: [{ path }, { host: "127.0.0.1", port }] })).rejects.toMatchObject({
      code: "bridge.listen_failed",
      details: { host: "127.0.0.1", port },
    })
    await expect(get(path, "/health")).rejects.toThrow()
  })

  it("loads neither WebSockets nor cryptography nor schemas before the first answer", async () => {
    const path = join(temporaryDirectory(), "socket")
    const program = join(import.meta.dirname, "testing", "first-answer.ts")
    const child = spawn(process.execPath, ["--conditions=source", program, path], {
      stdio: ["ignore", "pipe", "inherit"],
    })
    const loaded: string[] = JSON.parse(await text(child.stdout))
    expect(loaded).toContain("node:http")
    for (const heavy of ["node:crypto", "node:tls", "node:https", "ws", "zod"])
      expect(loaded).not.toContain(heavy)
    const places = loaded.flatMap((url) => /supervisor\/src\/([\w-]+)\//.exec(url)?.[1] ?? [])
    expect(new Set(places)).toEqual(new Set(["bridge", "processes"]))
  })

  it("[R2.12] holds calls that need the rest until that is loaded", async () => {
    const loading = Promise.withResolvers<Inside>()
    const { path, sandbox, whole } = await serve({ inside: loading.promise })
    const unknown = get(path, "/else")
    const { opened, say, received, until } = connect(path)
    // The answer to a later call shows that the two have arrived.
    expect(await get(path, "/health")).toMatchObject({ status: 200 })
    loading.resolve(whole)
    expect(await unknown).toMatchObject({ status: 404 })
    await opened
    say(helloTo(sandbox))
    await until(() => received.length === 1)
  })

  it("drops calls that wait for the rest when it cannot be loaded, or when the sandbox goes down", async () => {
    const broken = await serve({ inside: Promise.reject(new Error("broken")) })
    await expect(get(broken.path, "/else")).rejects.toThrow()
    await expect(connect(broken.path).opened).rejects.toThrow()
    const { path, server } = await serve({ inside: new Promise(() => {}) })
    const waiting = [get(path, "/else"), connect(path).opened]
    for (const each of waiting) each.catch(() => {})
    expect(await get(path, "/health")).toMatchObject({ status: 200 })
    await server.close()
    for (const each of waiting) await expect(each).rejects.toThrow()
  })
})

describe("a bridge connection", () => {
  it("[R3.2] says hello, sends the events after the last number seen, then the new events", async () => {
    const { path, sandbox, journal } = await serve()
    await appendMany(journal, 10)
    const { opened, say, received, until, numbers } = connect(path)
    await opened
    say(helloTo(sandbox, 4))
    await until(() => numbers().length === 6)
    expect(received[0]).toEqual({ type: "hello", generation: 1, sandbox, first: 1, last: 10 })
    await appendMany(journal, 5)
    await until(() => numbers().length === 11)
    expect(numbers()).toEqual(upTo(15, 5))
  })

  it("[R2.12] waits with its hello until the journal is open", async () => {
    const opening = Promise.withResolvers<Journal>()
    const { path, sandbox, journal } = await serve({ journal: opening.promise })
    const { opened, say, received, until } = connect(path)
    await opened
    say(helloTo(sandbox))
    expect(await get(path, "/health")).toMatchObject({ status: 200 })
    expect(received).toEqual([])
    opening.resolve(journal)
    await until(() => received.length === 1)
  })

  it("[R3.4] forgets events that are acknowledged, by a message or by the next hello", async () => {
    const { path, sandbox, journal } = await serve({ journalOptions: { maxBytes: 16 * 1024 } })
    const first = connect(path)
    await first.opened
    first.say(helloTo(sandbox))
    const appending = appendMany(journal, 400)
    await first.until(() => first.numbers().length > 100)
    expect(journal.first).toBe(1)
    first.say({ type: "acknowledge", upTo: 100 })
    await expect.poll(() => journal.first).toBeGreaterThan(1)
    const seen = first.numbers().length
    const second = connect(path)
    await second.opened
    second.say(helloTo(sandbox, seen))
    await second.until(() => second.numbers().length > 0)
    expect(journal.first).toBeGreaterThan(50)
    while (second.numbers().at(-1) !== 400) {
      const count = second.numbers().length
      second.say({ type: "acknowledge", upTo: second.numbers().at(-1) })
      await second.until(() => second.numbers().length > count)
    }
    await appending
    expect(second.numbers()).toEqual(upTo(400, seen + 1))
  })

  it("is replaced by a newer connection once that one has said a valid hello", async () => {
    const { path, sandbox, journal } = await serve()
    const older = connect(path)
    await older.opened
    older.say(helloTo(sandbox))
    await older.until(() => older.received.length === 1)
    const silent = connect(path)
    const wrong = connect(path)
    await Promise.all([silent.opened, wrong.opened])
    wrong.say(helloTo(newId.sandbox()))
    expect(await wrong.closed).toMatchObject({ code: CLOSE.protocolViolated })
    await appendMany(journal, 1)
    await older.until(() => older.numbers().length === 1)
    const newer = connect(path)
    await newer.opened
    newer.say(helloTo(sandbox))
    expect(await older.closed).toMatchObject({ code: CLOSE.replaced })
    await newer.until(() => newer.numbers().length === 1)
  })

  it.each<[string, (sandbox: string) => unknown[], number]>([
    ["a message that is no JSON", () => ["nonsense"], CLOSE.protocolViolated],
    [
      "an unknown key whose name has no room in a reason",
      (sandbox) => [{ ...helloTo(sandbox), ["é".repeat(100)]: 1 }],
      CLOSE.protocolViolated,
    ],
    [
      "another message before hello",
      () => [{ type: "acknowledge", upTo: 1 }],
      CLOSE.protocolViolated,
    ],
    ["a hello for another sandbox", () => [helloTo(newId.sandbox())], CLOSE.protocolViolated],
    ["another generation", (sandbox) => [helloTo(sandbox, 0, 2)], CLOSE.generationMismatch],
    ["a number that is not held", (sandbox) => [helloTo(sandbox, 7)], CLOSE.historyLost],
    ["a second hello", (sandbox) => [helloTo(sandbox), helloTo(sandbox)], CLOSE.protocolViolated],
    [
      "an acknowledgement of an event that it was not sent",
      (sandbox) => [helloTo(sandbox), { type: "acknowledge", upTo: 9 }],
      CLOSE.protocolViolated,
    ],
    ["a message that is too large", (sandbox) => [helloTo(sandbox), "x".repeat(3_000_000)], 1009],
  ])("ends with a code that says why after %s", async (_what, messages, code) => {
    const { path, sandbox, prompts } = await serve()
    const { opened, say, closed } = connect(path)
    await opened
    for (const message of messages(sandbox)) say(message)
    expect(await closed).toMatchObject({ code })
    expect(prompts.count).toBe(0)
    const next = connect(path)
    await next.opened
    next.say(helloTo(sandbox))
    await next.until(() => next.received.length === 1)
  })

  it("ends with a code when the journal cannot be opened, or the sandbox goes down", async () => {
    const broken = await serve({ journal: Promise.reject(new Error("broken")) })
    const first = connect(broken.path)
    await first.opened
    first.say(helloTo(broken.sandbox))
    expect(await first.closed).toMatchObject({ code: CLOSE.journalUnusable })

    const { path, sandbox, server } = await serve()
    const second = connect(path)
    await second.opened
    second.say(helloTo(sandbox))
    await second.until(() => second.received.length === 1)
    await server.close()
    expect(await second.closed).toMatchObject({ code: CLOSE.stopping })
  })

  it("ends when no hello comes, or nothing is heard any more, but not while pings come", async () => {
    const { path, sandbox } = await serve({ helloDeadlineMs: 100, silenceLimitMs: 1_000 })
    const silent = connect(path)
    expect(await silent.closed).toMatchObject({ code: 1006 })

    const { opened, say, received, until, closed, websocket } = connect(path)
    await opened
    say(helloTo(sandbox))
    await until(() => received.length === 1)
    for (let pings = 0; pings < 30; pings++) {
      websocket.ping()
      await once(websocket, "pong")
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    expect(websocket.readyState).toBe(websocket.OPEN)
    expect(await closed).toMatchObject({ code: 1006 })
  })

  it("[R2.12] accepts prompts before the boot is ready, and answers each message with the prompt's standing", async () => {
    const { path, sandbox, prompts } = await serve()
    const { opened, say, received, until, numbers } = connect(path)
    await opened
    say(helloTo(sandbox))
    const [prompt, session] = [newId.prompt(), newId.session()]
    await until(() => received.length === 1)
    say({ type: "prompt.start", prompt, session, text: "do it" })
    await until(() => received.length === 2)
    expect(received[1]).toEqual({
      type: "prompt.standing",
      prompt,
      standing: { state: "accepted" },
    })
    say({ type: "prompt.stop", prompt: newId.prompt() })
    await until(() => received.length === 3)
    expect(received[2]).toMatchObject({ standing: { state: "unknown" } })
    expect(numbers()).toEqual([])
    prompts.open()
    await until(() => numbers().length === 2)
    say({ type: "prompt.start", prompt, session, text: "do it" })
    const standing = { state: "ended", result: { state: "succeeded" } }
    await until(() => received.some((message) => JSON.stringify(message).includes("ended")))
    expect(received.at(-1)).toEqual({ type: "prompt.standing", prompt, standing })
  })

  it("refuses an answer that nothing waits for", async () => {
    const { path, sandbox } = await serve()
    const { opened, say, received, until } = connect(path)
    await opened
    say(helloTo(sandbox))
    const prompt = newId.prompt()
    await until(() => received.length === 1)
    say({ type: "prompt.answer", prompt, answer: { kind: "question", ask: "q", answer: "yes" } })
    await until(() => received.length === 2)
    const refused = { type: "prompt.refused", prompt, code: "session.nothing_asked" }
    expect(received[1]).toMatchObject(refused)
  })

  it("refuses a message about a prompt when the ledger cannot be opened, with a code", async () => {
    const { path, sandbox } = await serve({ prompts: Promise.reject(new Error("no ledger")) })
    const { opened, say, received, until } = connect(path)
    await opened
    say(helloTo(sandbox))
    const prompt = newId.prompt()
    await until(() => received.length === 1)
    say({ type: "prompt.stop", prompt })
    await until(() => received.length === 2)
    expect(received[1]).toMatchObject({ type: "prompt.refused", prompt, code: "internal" })
  })
})
