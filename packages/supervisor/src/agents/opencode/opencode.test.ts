import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import type { ModelReply, ModelTurn } from "@berth/testing/scripted-model"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { until } from "../../processes/testing/until.ts"
import type { Agent } from "../agent.ts"
import { ask, ignore, makeStage, never, type Stage, typesOf } from "./testing/stage.ts"

/** A cold start takes two seconds of CPU; this covers a busy machine. */
const TEST_LIMIT_MS = 90_000

const started = async (stage: Stage, agent: Agent = stage.agent): Promise<Agent> => {
  await agent.start(never, ignore)
  await agent.attach(stage.repo, never)
  return agent
}

const run = (command: string): ModelReply => ({
  tool: "bash",
  arguments: { command, description: "runs" },
})

/**
 * Answers "run: COMMAND" by running it, "write: PATH" by writing a file and reading it, "say: WORDS" with them, and
 * everything else with a greeting.
 */
const obedient = ({ prompt, toolResults }: ModelTurn): ModelReply => {
  const [, order, what = ""] = /^(run|write|say): (.*)$/.exec(prompt) ?? []
  if (order === "run" && toolResults.length === 0) return run(what)
  if (order === "write") return write(what, toolResults)
  if (order === "say") return { text: [what] }
  if (prompt === "hang") return { hangAfter: "I be" }
  if (prompt === "fail") return { status: 400, message: "this model is out of order" }
  return { text: ["Hello", ", ", "world"] }
}

const write = (filePath: string, toolResults: readonly string[]): ModelReply => {
  if (toolResults.length === 0)
    return { tool: "write", arguments: { filePath, content: "by the agent" } }
  return toolResults.length === 1 ? run("cat made.txt") : { text: [toolResults[1] ?? ""] }
}

describe("OpenCode that is up", { timeout: TEST_LIMIT_MS }, () => {
  let stage: Stage
  const ends: (() => Promise<void>)[] = []
  beforeAll(async () => {
    stage = await makeStage({ script: obedient }, (end) => ends.push(end))
    await started(stage)
  }, TEST_LIMIT_MS)
  afterAll(async () => {
    for (const end of ends) await end()
  })

  it("[R3.6] writes a file and runs a command, and tells of both", async () => {
    const path = join(stage.repo, "made.txt")
    const told = await ask(stage.agent, `write: ${path}`)
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "by the agent" })
    expect(readFileSync(path, "utf8")).toBe("by the agent")
    const tools = told.events.filter(({ type }) => type.startsWith("tool."))
    expect(tools).toMatchObject([
      { type: "tool.started", tool: "write" },
      { type: "tool.completed", failed: false },
      { type: "tool.started", tool: "bash" },
      { type: "tool.completed", failed: false },
    ])
  })

  it("[R3.3] stops within a second what a tool runs, and takes the next prompt", async () => {
    const { agent } = stage
    const session = newId.session()
    const before = stage.family.running().length
    const stop = new AbortController()
    const running = ask(agent, "run: sleep 1000", { session, signal: stop.signal })
    await until(() => stage.family.running().length > before)
    const stoppedAtMs = performance.now()
    stop.abort()
    const told = await running
    expect(performance.now() - stoppedAtMs).toBeLessThan(1_000)
    expect(told.result.state).toBe("stopped")
    expect(typesOf(told)).toEqual(["tool.started", "tool.completed"])
    await until(() => stage.family.running().length <= before)
    expect(await ask(agent, "again", { session })).toMatchObject({
      ...{ result: { state: "succeeded" }, text: "Hello, world" },
    })
  })

  it("[R3.3] stops within a second while the model hangs", async () => {
    const stop = new AbortController()
    let stoppedAtMs = 0
    const told = await ask(stage.agent, "hang", {
      signal: stop.signal,
      onEvent: ({ type }) => {
        if (type !== "message.delta") return
        stoppedAtMs = performance.now()
        stop.abort()
      },
    })
    expect(performance.now() - stoppedAtMs).toBeLessThan(1_000)
    expect(told).toMatchObject({ result: { state: "stopped" }, text: "I be" })
    expect(typesOf(told)).toEqual(["message.delta", "message.completed"])
  })

  it("runs the prompts of two sessions at the same time, each with its own words", async () => {
    const told = await Promise.all(["one", "two"].map((text) => ask(stage.agent, `say: ${text}`)))
    expect(told.map(({ text }) => text)).toEqual(["one", "two"])
  })

  it("fails a prompt in OpenCode's own words", async () => {
    const told = await ask(stage.agent, "fail")
    expect(told.result).toEqual({ state: "failed", reason: "this model is out of order" })
    expect(told.events).toMatchObject([
      { type: "error", code: "agent.failed", message: "this model is out of order" },
    ])
  })

  it("keeps its password out of its command line, its log and its events", async () => {
    const told = await ask(stage.agent, "greet me")
    const pid = stage.processes.get("opencode")?.status().pid
    const environment = readFileSync(`/proc/${pid}/environ`, "latin1")
    const [, password = ""] = /OPENCODE_SERVER_PASSWORD=([^\0]{43})\0/.exec(environment) ?? []
    expect(password).not.toBe("")
    const logs = join(stage.directory, "logs")
    const public_ = [
      readFileSync(`/proc/${pid}/cmdline`, "latin1"),
      ...readdirSync(logs).map((name) => readFileSync(join(logs, name), "latin1")),
      JSON.stringify([stage.news, told.events]),
    ]
    expect(public_.filter((text) => text.includes(password))).toEqual([])
    const port = /:(\d+)/.exec(readFileSync(join(logs, "opencode.log"), "utf8"))?.[1]
    expect((await fetch(`http://127.0.0.1:${port}/global/health`)).status).toBe(401)
  })
})

describe("OpenCode", { timeout: TEST_LIMIT_MS }, () => {
  it("[R3.6] starts, takes a directory, and answers a prompt as deltas", async () => {
    const stage = await makeStage({ script: obedient })
    const { agent } = stage
    expect(agent.trouble()).toBeDefined()
    const report = await agent.start(never, ignore)
    expect(report.facts).toMatchObject({ version: "1.18.33", pid: expect.any(Number) })
    await agent.attach(stage.repo, never)
    expect(agent.trouble()).toBeUndefined()

    const told = await ask(agent, "greet me")
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "Hello, world" })
    expect(new Set(typesOf(told).slice(0, -1))).toEqual(new Set(["message.delta"]))
    expect(typesOf(told).at(-1)).toBe("message.completed")
  })

  it("[R3.3] is ended when it does not stop, and the session goes on", async () => {
    const stage = await makeStage({ script: obedient })
    const agent = await started(stage)
    const session = newId.session()
    await ask(agent, "remember me", { session })
    const pid = stage.processes.get("opencode")?.status().pid as number
    const stop = new AbortController()
    let stoppedAtMs = 0
    const told = await ask(agent, "hang", {
      session,
      signal: stop.signal,
      onEvent: ({ type }) => {
        if (type !== "message.delta") return
        process.kill(pid, "SIGSTOP")
        stoppedAtMs = performance.now()
        stop.abort()
      },
    })
    expect(performance.now() - stoppedAtMs).toBeLessThan(1_000)
    expect(told.result).toEqual({
      state: "stopped",
      reason: expect.stringContaining("its process was ended"),
    })
    const again = await ask(agent, "again", { session })
    expect(again).toMatchObject({ result: { state: "succeeded" }, text: "Hello, world" })
    expect(stage.processes.get("opencode")?.status().pid).not.toBe(pid)
    // The first question and its answer are still part of what the model is asked.
    expect(stage.model.turns.at(-1)?.messages).toBeGreaterThan(3)
  })

  it("starts again after a crash, and is told the directory before the next prompt", async () => {
    const stage = await makeStage({ script: obedient })
    const agent = await started(stage)
    const pid = stage.processes.get("opencode")?.status().pid as number
    const crashed = await ask(agent, "hang", {
      onEvent: ({ type }) => type === "message.delta" && process.kill(pid, "SIGKILL"),
    })
    expect(crashed.result).toMatchObject({ state: "failed" })
    expect(typesOf(crashed)).toEqual(["message.delta", "message.completed", "error"])
    const told = await ask(agent, "run: pwd > where.txt")
    expect(told.result).toEqual({ state: "succeeded" })
    expect(readFileSync(join(stage.repo, "where.txt"), "utf8").trim()).toBe(stage.repo)
  })

  it("[R3.5] goes on with a conversation in another sandbox, from OpenCode's own files", async () => {
    const stage = await makeStage({ script: obedient })
    const session = newId.session()
    await ask(await started(stage), "remember me", { session })
    await stage.processes.stop()
    const second = await started(stage, stage.another())
    await ask(second, "again", { session })
    expect(stage.model.turns.at(-1)?.messages).toBeGreaterThan(3)
    await ask(second, "a conversation of its own")
    expect(stage.model.turns.at(-1)?.messages).toBeLessThanOrEqual(3)
  })

  it("takes the model that the workspace names, and refuses a name that is none", async () => {
    const told = await ask(await started(await makeStage({ model: "scripted/none" })), "hello")
    expect(told.result).toEqual({
      state: "failed",
      reason: expect.stringContaining("Model not found: scripted/none"),
    })
    await expect(makeStage({ model: "scripted" })).rejects.toMatchObject({ code: "input.invalid" })
  })

  it("is allowed what its configuration leaves to be asked, and says so", async () => {
    const stage = await makeStage({ script: obedient, config: { permission: { bash: "ask" } } })
    const told = await ask(await started(stage), "run: echo allowed > allowed.txt")
    expect(told.result).toEqual({ state: "succeeded" })
    expect(readFileSync(join(stage.repo, "allowed.txt"), "utf8")).toBe("allowed\n")
    expect(told.events).toContainEqual({
      type: "warning",
      message: "OpenCode asked for bash, which was allowed",
    })
  })

  it("leaves no process behind when it is stopped in the middle of a tool's work", async () => {
    const stage = await makeStage({ script: obedient })
    const agent = await started(stage)
    const deep = "run: (setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000"
    const running = ask(agent, deep)
    await until(() => stage.family.running().length >= 5)
    await stage.processes.stop()
    expect(stage.family.running()).toEqual([])
    expect((await running).result.state).toBe("failed")
  })
})
