import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { startScriptedModel } from "../scripted-model.ts"
import { modelProgram } from "./program.ts"
import { type ModelReply, type ModelScript, playScript } from "./script.ts"

const TOOL = { name: "run", description: "runs", parameters: { type: "object" } }

/** For each API, a request with a prompt and an answered call, and how its events tell text from a call. */
const APIS = [
  {
    path: "/chat/completions",
    asking: (prompt: string) => ({
      model: "m",
      stream: true,
      tools: [{ type: "function", function: TOOL }],
      messages: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "earlier" },
        { role: "assistant", content: "Yes." },
        { role: "user", content: [{ type: "text", text: prompt }] },
        { role: "assistant", content: null, tool_calls: [] },
        { role: "tool", tool_call_id: "1", content: "result" },
      ],
    }),
    textIn: (event: Json) => at(event, "choices", 0, "delta", "content"),
    argumentsIn: (event: Json) =>
      at(event, "choices", 0, "delta", "tool_calls", 0, "function", "arguments"),
    last: "[DONE]",
  },
  {
    path: "/messages?beta=true",
    asking: (prompt: string) => ({
      model: "m",
      stream: true,
      tools: [{ name: "run", input_schema: {} }],
      messages: [
        { role: "user", content: "earlier" },
        { role: "assistant", content: [{ type: "text", text: "Yes." }] },
        { role: "user", content: [{ type: "text", text: prompt }] },
        { role: "assistant", content: [{ type: "tool_use", id: "1", name: "run", input: {} }] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "1", content: [{ type: "text", text: "result" }] },
            { type: "text", text: "a note of the agent" },
          ],
        },
      ],
    }),
    textIn: (event: Json) => at(event, "delta", "text"),
    argumentsIn: (event: Json) => at(event, "delta", "partial_json"),
    last: expect.objectContaining({ type: "message_stop" }),
  },
  {
    path: "/responses",
    asking: (prompt: string) => ({
      model: "m",
      stream: true,
      tools: [{ type: "function", ...TOOL }],
      input: [
        { type: "message", role: "developer", content: [{ type: "input_text", text: "Be kind." }] },
        { type: "message", role: "user", content: [{ type: "input_text", text: "earlier" }] },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "Yes." }] },
        { type: "message", role: "user", content: [{ type: "input_text", text: prompt }] },
        { type: "function_call", call_id: "1", name: "run", arguments: "{}" },
        { type: "function_call_output", call_id: "1", output: "result" },
      ],
    }),
    textIn: (event: Json) => (isOf(event, "response.output_text.delta") ? at(event, "delta") : ""),
    argumentsIn: (event: Json) =>
      isOf(event, "response.function_call_arguments.delta") ? at(event, "delta") : "",
    last: expect.objectContaining({ type: "response.completed" }),
  },
] as const

type Json = unknown

const at = (value: Json, ...path: (string | number)[]): unknown =>
  path.reduce((inner, name) => (inner as Record<string, unknown> | undefined)?.[name], value)

const isOf = (event: Json, type: string): boolean => at(event, "type") === type

const joined = (events: readonly Json[], read: (event: Json) => unknown): string =>
  events.map((event) => read(event) ?? "").join("")

const eventsIn = (body: string): Json[] =>
  [...body.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) =>
    data === "[DONE]" ? data : JSON.parse(data),
  )

const post = (baseUrl: string, path: string, body: Json) =>
  fetch(baseUrl + path, {
    method: "POST",
    headers: { authorization: "Bearer secret" },
    body: JSON.stringify(body),
  })

const started = async (...replies: [ModelReply, ...ModelReply[]]) => {
  const model = await startScriptedModel(playScript([{ prompt: "now", replies }]))
  onTestFinished(() => model.close())
  return model
}

for (const { path, asking, textIn, argumentsIn, last } of APIS)
  it(`the scripted model plays a script as ${path} streams it, with every fault`, async () => {
    const model = await started(
      { tool: "run", arguments: { command: "ls -l" } },
      { status: 429, message: "slowly", retryAfterS: 2 },
      { status: 401, message: "who?" },
      { status: 500, message: "oh" },
      { cutAfter: "half of" },
      { malformedAfter: "half of" },
      { text: ["All ", "is ", "well."], pauseMs: 20, delayMs: 50 },
    )
    const ask = () => post(model.baseUrl, path, asking("do it now"))

    const call = eventsIn(await (await ask()).text())
    expect(JSON.parse(joined(call, argumentsIn))).toEqual({ command: "ls -l" })
    expect(joined(call, textIn)).toBe("")
    expect(call.at(-1)).toEqual(last)

    const slowly = await ask()
    expect([slowly.status, slowly.headers.get("retry-after")]).toEqual([429, "2"])
    expect(await slowly.json()).toMatchObject({ error: { message: "slowly" } })
    expect((await ask()).status).toBe(401)
    expect((await ask()).status).toBe(500)

    await expect((await ask()).text()).rejects.toThrow("terminated")
    const malformed = await (await ask()).text()
    expect(malformed).toContain("half of")
    expect(() => eventsIn(malformed)).toThrow(SyntaxError)

    for (const _ of ["the last", "the last again"]) {
      const before = performance.now()
      const text = eventsIn(await (await ask()).text())
      // Timers may be a millisecond early.
      expect(performance.now() - before).toBeGreaterThanOrEqual(85)
      expect(joined(text, textIn)).toBe("All is well.")
      expect(text.filter((event) => textIn(event)).length).toBe(3)
      expect(text.at(-1)).toEqual(last)
    }

    expect(model.turns).toHaveLength(8)
    expect(model.turns[0]).toMatchObject({
      prompt: "do it now",
      userTexts: ["earlier", "do it now"],
      toolResults: ["result"],
      model: "m",
      tools: ["run"],
      key: "secret",
    })
  })

it("the scripted model plays an answer that never goes on", async () => {
  const model = await started({ hangAfter: "half of" })
  const api = APIS[0]
  const response = await post(model.baseUrl, api.path, api.asking("now"))
  const reader = response.body?.getReader()
  let read = ""
  while (!read.includes("half of"))
    read += Buffer.from((await reader?.read())?.value ?? []).toString()
  const more = reader?.read().catch(() => "closed")
  expect(await Promise.race([more, new Promise((done) => setTimeout(done, 50, "silent"))])).toBe(
    "silent",
  )
  await reader?.cancel()
})

it("the scripted model refuses prompts that its script lacks, and unknown paths", async () => {
  const model = await started({ text: ["Hello"] })
  const [api] = APIS
  expect((await post(model.baseUrl, api.path, api.asking("something else"))).status).toBe(400)
  expect((await post(model.baseUrl, "/models", {})).status).toBe(404)
})

it("the scripted model runs as one plain file, and writes its port and the requests to files", async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-model-"))
  const at = (name: string) => join(directory, name)
  const script: ModelScript = [{ prompt: "now", replies: [{ text: ["Hello"] }] }]
  writeFileSync(at("model-server.mjs"), await modelProgram())
  writeFileSync(at("script.json"), JSON.stringify(script))
  const child = spawn(process.execPath, [at("model-server.mjs"), at("script.json"), at("out")], {
    stdio: "inherit",
    env: {},
  })
  onTestFinished(async () => {
    const ended = once(child, "exit")
    child.kill()
    await ended
    rmSync(directory, { recursive: true })
  })
  await expect
    .poll(() => existsSync(at("out/port")) && readFileSync(at("out/port"), "utf8"))
    .toMatch(/\d+\n/)
  const [api] = APIS
  const baseUrl = `http://127.0.0.1:${readFileSync(at("out/port"), "utf8").trim()}/v1`
  const response = await post(baseUrl, api.path, api.asking("do it now"))
  expect(joined(eventsIn(await response.text()), api.textIn)).toBe("Hello")
  const asked = readFileSync(at("out/asked.jsonl"), "utf8").trimEnd().split("\n")
  expect(asked.map((line) => JSON.parse(line))).toMatchObject([{ prompt: "do it now" }])
})
