import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { until } from "../../processes/testing/until.ts"
import { ask, ignore, never } from "../testing/ask.ts"
import { MAX_OPEN_ASKS } from "./asks.ts"
import { Client } from "./client.ts"
import { Conversation, MARK } from "./conversation.ts"
import { Edits } from "./edits.ts"
import { type Hostile, startHostile } from "./testing/hostile.ts"
import { makeStage } from "./testing/stage.ts"
import { Usage } from "./usage.ts"

const MIB = 1024 * 1024

/** A server in the place of OpenCode: takes every prompt, and then runs the script. */
const talking = (onPrompt: string): string => `
exec ${process.execPath} -e '
  const { createServer } = require("node:http")
  const streams = new Set()
  let made = 0
  const say = (type, properties) => {
    for (const stream of streams) stream.write("data: " + JSON.stringify({ type, properties }) + "\\n\\n")
  }
  createServer((request, response) => {
    let body = ""
    request.on("data", (chunk) => { body += chunk })
    request.on("end", () => {
      const { url, method } = request
      if (url.startsWith("/event")) {
        streams.add(response)
        return response.write("data: {}\\n\\n")
      }
      if (url.startsWith("/session?")) return response.end(method === "GET" ? "[]" : JSON.stringify({ id: "ses_" + ++made }))
      if (url.includes("/reject") || url.includes("/reply")) console.log("declined")
      if (url.includes("/abort")) return
      response.end("{}")
      if (!url.includes("prompt_async")) return
      const sessionID = url.split("/")[2]
      const part = { ...JSON.parse(body).parts[0], id: "u", messageID: "u" }
      const begin = () => {
        say("message.part.updated", { sessionID, part })
        say("session.status", { sessionID, status: { type: "busy" } })
      }
      const end = () => say("session.status", { sessionID, status: { type: "idle" } })
      ${onPrompt}
    })
  }).listen(0, "127.0.0.1", function () {
    console.log("opencode server listening on http://127.0.0.1:" + this.address().port)
  })'`

const stageOf = async (onPrompt: string, permissions: "ask" | "allow" = "ask") => {
  const stage = await makeStage({ instead: talking(onPrompt), permissions })
  await stage.agent.start(never, ignore)
  await stage.agent.attach(stage.repo, never)
  return stage
}

describe("a hostile OpenCode", () => {
  it("that asks without end has a bounded number of asks open, and can be stopped", async () => {
    const { agent, processes } = await stageOf(`
      begin()
      const questions = Array(1000).fill({ question: "?" })
      say("question.asked", { sessionID, id: "many", questions })
      for (let n = 0; n < 200; n++)
        say("permission.asked", { sessionID, id: "p" + n, permission: { toString: 1 }, patterns: [] })
    `)
    const stop = new AbortController()
    const running = ask(agent, "hello", { signal: stop.signal })
    const declined = () => processes.get("opencode")?.lastOutput().split("declined").length ?? 0
    await until(() => declined() > 200 - MAX_OPEN_ASKS)
    stop.abort()
    const { result, types } = await running
    expect(result.state).toBe("stopped")
    expect(types.filter((type) => type === "permission.asked")).toHaveLength(MAX_OPEN_ASKS)
    expect(types).not.toContain("question.asked")
  }, 30_000)

  it("that speaks for other sessions ends no prompt of theirs, and says nothing in them", async () => {
    const { agent, processes } = await stageOf(`
      begin()
      if (body.includes("victim")) return console.log("took the first")
      for (const sessionID of ["ses_9", undefined, null, {}, ["ses_1"]]) {
        say("session.status", { sessionID, status: { type: "idle" } })
        say("session.idle", { sessionID })
        say("session.error", { sessionID, error: { name: "MessageAbortedError" } })
        say("permission.asked", { sessionID, id: "forged", permission: "bash" })
      }
      say("file.edited", { file: "/etc/passwd" })
      end()
    `)
    const stop = new AbortController()
    const victim = ask(agent, "victim", { signal: stop.signal })
    await until(() => processes.get("opencode")?.lastOutput().includes("took the first"))
    const other = await ask(agent, "hello")
    expect(other.result).toEqual({ state: "succeeded" })
    stop.abort()
    const { result, events } = await victim
    expect(result.state).toBe("stopped")
    expect(events).toEqual([])
    expect(other.events).toEqual([])
  }, 30_000)

  it("that gives one conversation to two sessions fails the second", async () => {
    const { agent } = await stageOf("made = 0; begin(); end()")
    const first = newId.session()
    expect((await ask(agent, "hello", { session: first })).result.state).toBe("succeeded")
    expect((await ask(agent, "hello")).result).toMatchObject({ state: "failed" })
    expect((await ask(agent, "hello", { session: first })).result.state).toBe("succeeded")
  }, 30_000)
})

describe("a hostile answer", () => {
  const attacks: [string, Hostile, string][] = [
    ["redirects elsewhere", { head: "302 Found\r\nlocation: /other", body: "" }, "agent.failed"],
    ["is nested deep", { head: "200 OK", body: "[".repeat(100_000) }, "agent.failed"],
    ["has values without end", { head: "200 OK", body: `[${"1,".repeat(MIB)}1]` }, "agent.failed"],
    ["has no end", { head: "200 OK", body: "x".repeat(MIB), isEndless: true }, "agent.failed"],
    ["is never the last", { head: "100 Continue", body: "", isEndless: true }, "agent.failed"],
    ["has a head without end", { head: "200 OK\r\na: ", isEndlessHead: true }, "agent.unavailable"],
    [
      "leaves HTTP",
      { head: "101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x" },
      "agent.unavailable",
    ],
    ["never comes", { isSilent: true }, "deadline.exceeded"],
  ]
  for (const [name, hostile, code] of attacks)
    it(`that ${name} is a typed failure`, async () => {
      const server = await startHostile(hostile)
      const client = new Client({ port: server.port, password: "" })
      const limitMs = hostile.isSilent ? 50 : 20_000
      await expect(client.get("/path", { limitMs })).rejects.toMatchObject({ code })
      await server.close()
    }, 30_000)
})

describe("a hostile stream", () => {
  const prompt = newId.prompt()
  const event = (type: string, properties: object) => ({
    type,
    properties: { sessionID: "ses_1", ...properties },
  })

  it("yields no names that are too long, and no values that cannot be text or numbers", () => {
    const conversation = new Conversation(prompt, "ses_1", "/repo")
    const [long, odd] = ["n".repeat(MIB), { toString: 1, valueOf: 1 }]
    const part = {
      type: "text",
      id: long,
      messageID: long,
      text: "a",
      metadata: { [MARK]: prompt },
    }
    const heard = [
      event("message.part.updated", { part }),
      event("session.status", { status: { type: "retry", attempt: odd, next: odd, message: odd } }),
      event("message.updated", { info: { id: long, role: "assistant", time: {} } }),
      event("message.part.updated", { part: { ...part, text: "ab" } }),
      event("permission.asked", { id: "p", permission: odd, patterns: [odd] }),
      event("question.replied", { requestID: "p", answers: [[odd]] }),
      event("session.error", { error: { name: odd, data: odd, message: odd } }),
    ].flatMap((each) => conversation.hear(each).bodies)
    expect(heard.map(({ type }) => type)).toEqual(["warning", "message.delta", "error"])
    expect(JSON.stringify(heard).length).toBeLessThan(4096)
  })

  it("is counted up to 20,000 messages, with amounts that still have a sum", () => {
    const usage = new Usage(prompt)
    const info = { tokens: { input: 1e308, output: 1 }, cost: 1e308 }
    const told = Array.from({ length: 50_000 }, (_, n) => usage.hear(`m${n}`, info)).flat()
    expect(told).toHaveLength(20_000)
    expect(told.at(-1)).toMatchObject({ inputTokens: 2e13, outputTokens: 2e4, costUsd: 2e13 })
  }, 30_000)

  it("has a bounded part of its calls' inputs kept", () => {
    const edits = new Edits("/repo")
    for (let n = 0; n < 20; n++) edits.begin(`c${n}`, { text: "x".repeat(MIB), path: `f${n}` })
    expect([0, 2, 3, 19].map((n) => edits.areOf(`/repo/f${n}`))).toEqual([true, true, false, false])
    for (let n = 0; n < 20; n++) edits.end(`c${n}`)
    edits.begin("again", { path: "f19" })
    expect(edits.areOf("/repo/f19")).toBe(true)
  })
})
