import { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { runSeed } from "@berth/testing/seed"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { Updates } from "./updates.ts"

const prompt = newId.prompt()

const hear = (...updates: readonly unknown[]) => {
  const heard = new Updates(prompt, (id) => (id === "t" ? "of the terminal" : undefined))
  return { bodies: updates.flatMap((update) => heard.hear(update)), close: () => heard.close() }
}

const text = (text: string, messageId?: string) => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text },
  messageId,
})
const call = (update: object) => ({ sessionUpdate: "tool_call", toolCallId: "c", ...update })
const more = (update: object) => ({ sessionUpdate: "tool_call_update", toolCallId: "c", ...update })

describe("the updates of an agent over ACP", () => {
  it("are messages, each of which ends where the next message or a call begins", () => {
    const { bodies, close } = hear(
      ...[text("a"), text("b"), call({ title: "ls", status: "in_progress" }), text("c", "m1")],
      ...[text("d", "m1"), text("e", "m2")],
    )
    const said = bodies.map((body) => ("text" in body ? body.text : body.type))
    expect(said).toEqual([
      ...["a", "b", "message.completed", "tool.started", "c", "d", "message.completed", "e"],
    ])
    expect(close()).toMatchObject([
      { type: "tool.completed", call: "c", failed: true },
      { type: "message.completed", message: "m2" },
    ])
  })

  it("leave out the agent's thoughts and the replayed words of the user", () => {
    const { bodies } = hear(
      { ...text("hm"), sessionUpdate: "agent_thought_chunk" },
      { ...text("hello"), sessionUpdate: "user_message_chunk" },
    )
    expect(bodies).toEqual([])
  })

  it("tell of a call as soon as its input is known", () => {
    const pending = call({ title: "bash", status: "pending", rawInput: { cwd: "/" } })
    expect(hear(pending).bodies).toEqual([])
    expect(hear(pending, more({ rawInput: { command: "ls" } })).bodies).toEqual([
      { type: "tool.started", prompt, call: "c", tool: "bash", input: '{"command":"ls"}' },
    ])
    expect(hear(pending, more({ status: "failed", rawOutput: "no" })).bodies).toMatchObject([
      { type: "tool.started" },
      { type: "tool.completed", failed: true, output: "no" },
    ])
  })

  it.each([
    [{ content: [{ type: "content", content: { type: "text", text: "out" } }] }, "out"],
    [{ content: [{ type: "terminal", terminalId: "t" }] }, "of the terminal"],
    [{ rawOutput: { output: "raw" } }, "raw"],
    [{ rawOutput: { code: 1 } }, '{"code":1}'],
    [{ _meta: { terminal_output_delta: { data: "all at once" } } }, "all at once"],
  ])("tell the output of a call from each place that agents use for it: %j", (end, output) => {
    const { bodies } = hear(call({ title: "x" }), more({ status: "completed", ...end }))
    expect(bodies.at(-1)).toMatchObject({ type: "tool.completed", failed: false, output })
  })

  it("tell a command's output from agents that send it in pieces", () => {
    const piece = (data: string) => more({ _meta: { terminal_output_delta: { data } } })
    const end = more({ status: "completed", rawOutput: { exit_code: 0 } })
    const { bodies } = hear(call({ title: "x" }), piece("in "), piece("pieces"), end)
    expect(bodies.at(-1)).toMatchObject({ type: "tool.completed", output: "in pieces" })
  })

  it("tell the files that a call changed, unless the call failed or only read", () => {
    const diff = { content: [{ type: "diff", path: "/a", newText: "x" }] }
    const edit = call({ title: "edit", kind: "edit", locations: [{ path: "/b" }] })
    const paths = (...updates: object[]) =>
      hear(...updates).bodies.flatMap((body) => (body.type === "file.changed" ? [body.path] : []))
    expect(paths(edit, more({ status: "completed", ...diff }))).toEqual(["/a"])
    expect(paths(edit, more({ status: "completed" }))).toEqual(["/b"])
    expect(paths(edit, more({ status: "failed", ...diff }))).toEqual([])
    const read = call({ title: "read", kind: "read", locations: [{ path: "/b" }] })
    expect(paths(read, more({ status: "completed" }))).toEqual([])
  })

  it("become valid events, whatever they contain", () => {
    const anyUpdate = fc.record(
      {
        sessionUpdate: fc.constantFrom(
          ...["agent_message_chunk", "tool_call", "tool_call_update", "plan", "usage_update", 1],
        ),
        toolCallId: fc.oneof(fc.constant("c"), fc.string(), fc.jsonValue()),
        status: fc.constantFrom("pending", "in_progress", "completed", "failed", null),
        content: fc.jsonValue(),
        entries: fc.jsonValue(),
        title: fc.jsonValue(),
        rawInput: fc.jsonValue(),
        rawOutput: fc.jsonValue(),
        locations: fc.jsonValue(),
        _meta: fc.jsonValue(),
      },
      { requiredKeys: ["sessionUpdate"] },
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(anyUpdate, fc.jsonValue())), (updates) => {
        const { bodies, close } = hear(...updates)
        for (const body of [...bodies, ...close()])
          expect(EventBody.safeParse(body).error).toBeUndefined()
      }),
      { numRuns: 500, seed: runSeed() },
    )
  })
})
