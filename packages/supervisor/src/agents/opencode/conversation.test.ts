import { MAX_EVENT_BYTES } from "@berth/protocol/bridge-limits"
import { newId } from "@berth/protocol/ids"
import { runSeed } from "@berth/testing/seed"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { MAX_DELTA_CHARS, together } from "../together.ts"
import { Conversation, LAST_TRY, LONGEST_WAIT_MS, MARK } from "./conversation.ts"

const prompt = newId.prompt()
const session = "ses_1"

const event = (type: string, properties: object) => ({
  type,
  properties: { sessionID: session, ...properties },
})
const status = (type: string, more: object = {}) =>
  event("session.status", { status: { type, ...more } })
const message = (id: string, isCompleted = false) =>
  event("message.updated", {
    info: { id, role: "assistant", parentID: "u", time: isCompleted ? { completed: 1 } : {} },
  })
const part = (part: object) => event("message.part.updated", { part })
const text = (id: string, value: string) => part({ type: "text", id, messageID: "m", text: value })
const delta = (partID: string, value: string) =>
  event("message.part.delta", { partID, messageID: "m", field: "text", delta: value })
const finish = (messageID: string) => part({ type: "step-finish", messageID })
const tool = (callID: string, state: string) =>
  part({ type: "tool", callID, tool: "bash", state: { status: state } })
const BEGIN = part({
  type: "text",
  id: "u",
  messageID: "u",
  text: "?",
  metadata: { [MARK]: prompt },
})
const BEGUN = [BEGIN, status("busy"), message("m")]

const hear = (...events: readonly unknown[]) => {
  const conversation = new Conversation(prompt, session, "/repo")
  const heard = events.map((event) => conversation.hear(event))
  return {
    conversation,
    bodies: heard.flatMap(({ bodies }) => bodies),
    asked: heard.flatMap(({ asked }) => asked),
  }
}

describe("a conversation", () => {
  it("passes a text on once, whether it comes in pieces, whole, or both", () => {
    const { bodies } = hear(
      ...BEGUN,
      ...[
        text("p", ""),
        delta("p", "Hel"),
        delta("p", "lo"),
        text("p", "Hello!"),
        text("q", "You"),
      ],
    )
    expect(bodies).toMatchObject([{ text: "Hel" }, { text: "lo" }, { text: "!" }, { text: "You" }])
  })

  it("leaves out the agent's thoughts and the events of other sessions and prompts", () => {
    const elsewhere = { sessionID: "ses_2" }
    const { bodies, conversation } = hear(
      ...[message("old"), status("idle"), tool("old", "completed"), ...BEGUN],
      part({ type: "reasoning", id: "r", messageID: "m", text: "" }),
      ...[delta("r", "hm"), delta("unknown", "?")],
      event("session.error", { ...elsewhere, error: { name: "APIError" } }),
      event("session.status", { ...elsewhere, status: { type: "idle" } }),
    )
    expect(bodies).toEqual([])
    expect(conversation.isIdle).toBe(false)
  })

  it("is over when it is idle and every message and call has ended", () => {
    const failing = [...BEGUN, tool("c", "running"), status("idle")]
    expect(hear(...failing).conversation).toMatchObject({ isIdle: true, isOver: false })
    const ended = [...failing, tool("c", "error"), finish("m"), message("m", true), status("idle")]
    expect(hear(...ended).conversation.isOver).toBe(true)
  })

  it("hears a message that is first announced when it has ended", () => {
    const { bodies, conversation } = hear(
      ...[BEGIN, status("busy"), message("m", true), message("m", true), text("p", "Hello")],
      ...[finish("m"), message("m", true), status("idle")],
    )
    expect(bodies).toMatchObject([{ text: "Hello" }, { type: "message.completed" }])
    expect(conversation.isOver).toBe(true)
  })

  it("is not over at the idle of an earlier prompt, or of a stop that stopped nothing", () => {
    expect(hear(status("busy"), status("idle"), BEGIN).conversation.isIdle).toBe(false)
    expect(hear(BEGIN, status("idle")).conversation.isIdle).toBe(false)
    expect(hear(...BEGUN, status("idle"), status("busy")).conversation.isIdle).toBe(false)
  })

  it("closes the calls and messages that never ended", () => {
    const { conversation } = hear(...BEGUN, text("p", "Hel"), tool("c", "running"))
    expect(conversation.close()).toEqual([
      { type: "tool.completed", prompt, call: "c", failed: true },
      { type: "message.completed", prompt, message: "m" },
    ])
  })

  it("hears a subagent's asks, and the provider's retries", () => {
    const created = {
      type: "session.created",
      properties: { info: { id: "ses_3", parentID: session } },
    }
    const asked = { id: "per_1", sessionID: "ses_3", permission: "bash", patterns: ["ls", "cd"] }
    const { asked: asks, bodies } = hear(
      ...[...BEGUN, created, { type: "permission.asked", properties: asked }],
      status("retry", { attempt: 2, message: "too many requests" }),
    )
    expect(asks).toEqual([{ kind: "permission", id: "per_1", about: "bash: ls, cd" }])
    expect(bodies).toEqual([
      { type: "warning", prompt, message: "OpenCode tries again (2): too many requests" },
    ])
  })

  it("is hopeless when its provider has been tried too often, or would have to be waited for too long", () => {
    const retry = (attempt: number, waitMs: number) =>
      status("retry", { attempt, message: "quota exceeded", next: Date.now() + waitMs })
    expect(hear(...BEGUN, retry(LAST_TRY - 1, 1_000)).conversation.isHopeless).toBe(false)
    for (const last of [retry(LAST_TRY, 1_000), retry(1, 2 * LONGEST_WAIT_MS)]) {
      const { conversation, bodies } = hear(...BEGUN, last)
      expect(conversation).toMatchObject({ isHopeless: true, error: "quota exceeded" })
      expect(bodies).toMatchObject([{ type: "error", code: "agent.failed", prompt }])
    }
  })

  it("counts the usage of its own messages and of its subagents, and tells it whenever it has grown", () => {
    const created = {
      type: "session.created",
      properties: { info: { id: "ses_3", parentID: session } },
    }
    const cost = (id: string, input: number, more: object = {}) =>
      event("message.updated", {
        info: { id, role: "assistant", cost: 0.5, tokens: { input, output: 1, reasoning: 2 } },
        ...more,
      })
    const { bodies } = hear(
      ...[...BEGUN, created, cost("m", 0), cost("m", 10), cost("m", 10)],
      cost("h", 100, { sessionID: "ses_3" }),
      cost("x", 7, { sessionID: "ses_2" }),
    )
    expect(bodies).toEqual([
      { type: "usage", prompt, inputTokens: 0, outputTokens: 3, costUsd: 0.5 },
      { type: "usage", prompt, inputTokens: 10, outputTokens: 3, costUsd: 0.5 },
      { type: "usage", prompt, inputTokens: 110, outputTokens: 6, costUsd: 1 },
    ])
  })

  it("tells of a file that one of its calls changes, and of no other file", () => {
    const running = (callID: string, input: object) =>
      part({ type: "tool", callID, tool: "edit", state: { status: "running", input } })
    const edited = (file: string) => ({ type: "file.edited", properties: { file } })
    const { bodies } = hear(
      ...[...BEGUN, running("c", { filePath: "/repo/a.txt" }), edited("/repo/a.txt")],
      ...[edited("/repo/b.txt"), running("d", { patchText: "*** Update File: b.txt" })],
      ...[edited("/repo/b.txt"), tool("c", "completed"), edited("/repo/a.txt")],
    )
    const changed = bodies.flatMap((body) => (body.type === "file.changed" ? [body.path] : []))
    expect(changed).toEqual(["/repo/a.txt", "/repo/b.txt"])
  })

  it("tells no more of a plan or a question than one event can hold", () => {
    const long = "\u0001".repeat(100_000)
    const todos = Array.from({ length: 1_000 }, () => ({ content: long, status: "completed" }))
    const options = Array.from({ length: 100 }, () => ({ label: long }))
    const { bodies, asked } = hear(
      ...[...BEGUN, event("todo.updated", { todos })],
      event("question.asked", { id: "que_1", questions: [{ question: long, options }] }),
    )
    const [question] = asked.flatMap((each) => (each.kind === "question" ? each.questions : []))
    for (const told of [bodies, question])
      expect(JSON.stringify(told).length).toBeLessThan(MAX_EVENT_BYTES)
    expect(bodies).toMatchObject([{ type: "todo.updated" }])
  })

  it("survives events of any form and content", () => {
    const anyEvent = fc.record(
      {
        type: fc.constantFrom(
          ...["message.updated", "message.part.updated", "message.part.delta"],
          ...["session.status", "session.idle", "session.error", "todo.updated"],
        ),
        properties: fc.oneof(
          fc.jsonValue(),
          fc.record({
            sessionID: fc.oneof(fc.constant(session), fc.jsonValue()),
            part: fc.jsonValue(),
            info: fc.jsonValue(),
            status: fc.jsonValue(),
            error: fc.jsonValue(),
            todos: fc.jsonValue(),
          }),
        ),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.jsonValue(), anyEvent)), (events) => {
        expect(() => hear(...BEGUN, ...events)).not.toThrow()
      }),
      { numRuns: 500, seed: runSeed() },
    )
  })

  it("survives events that lack the properties of their type", () => {
    const forms = [null, 1, "x", [], {}, { type: "message.updated" }, { properties: 3 }]
    const types = ["message.part.updated", "message.part.delta", "session.status", "session.error"]
    const odd = types.flatMap((type) => [
      ...[event(type, {}), event(type, { part: 1, info: [], status: "idle", error: null })],
    ])
    expect(() => hear(...BEGUN, ...forms, ...odd)).not.toThrow()
  })
})

describe("text that comes together", () => {
  it("is one event up to the next message's text, and is cut where an event would be too large", () => {
    const say = (message: string, text: string) =>
      ({ type: "message.delta", prompt, message, text }) as const
    expect(together([say("a", "1"), say("a", "2"), say("b", "3"), say("a", "4")])).toEqual([
      ...[say("a", "12"), say("b", "3"), say("a", "4")],
    ])
    const long = `${"x".repeat(MAX_DELTA_CHARS - 1)}🚢${"y".repeat(MAX_DELTA_CHARS)}`
    const pieces = together([say("a", long)]) as { text: string }[]
    expect(pieces.map(({ text }) => text).join("")).toBe(long)
    expect(pieces.every(({ text }) => text.isWellFormed())).toBe(true)
    expect(pieces.every(({ text }) => text.length <= MAX_DELTA_CHARS)).toBe(true)
  })
})
