import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import type { ClientRequest } from "node:http"
import { join } from "node:path"
import { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import { MAX_TOOL_TEXT_CHARS } from "@berth/protocol/session-limits"
import { sampled } from "@berth/testing/sampled"
import type { ModelReply, ModelTurn } from "@berth/testing/scripted-model"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { until } from "../../processes/testing/until.ts"
import type { Agent, AgentReport } from "../agent.ts"
import { ask, ignore, never, type Told } from "../testing/ask.ts"
import { parseModel } from "./model.ts"
import { MAKING_TOOLS, writeGenerousConfig } from "./testing/generous.ts"
import { makeStage, type Stage } from "./testing/stage.ts"
import { requireModel } from "./usable-model.ts"

/** A cold start takes two seconds of CPU; this covers a busy machine. */
const TEST_LIMIT_MS = 90_000

const started = async (stage: Stage, agent: Agent): Promise<Agent> => {
  await agent.start(never, ignore)
  await agent.attach(stage.repo, never)
  return agent
}

const run = (command: string): ModelReply => ({
  tool: "bash",
  arguments: { command, description: "runs" },
})

/**
 * Answers "run: COMMAND" by running it, "write: PATH" by writing a file and reading it, "say: WORDS" with them,
 * "make TOOL: PATH" by making a file with that tool, and everything else with a greeting.
 */
const obedient = ({ prompt, toolResults }: ModelTurn): ModelReply => {
  const [, order, what = ""] = /^(run|write|say|fail|plan|question): (.*)$/.exec(prompt) ?? []
  const [, tool = "", file = ""] = /^make (\w+): (.*)$/.exec(prompt) ?? []
  const make = toolResults.length === 0 ? MAKING_TOOLS[tool] : undefined
  if (make !== undefined) return make(file)
  if (order === "run" && toolResults.length === 0) return run(what)
  if (order === "write") return write(what, toolResults)
  if (order === "say") return { text: [what] }
  if (prompt === "hang") return { hangAfter: "I be" }
  if (order === "fail")
    return { status: Number(what), message: "this model is out of order", retryAfterS: 0.1 }
  if (order === "plan" && toolResults.length === 0) return plan(what)
  if (order === "question" && toolResults.length === 0) return question(what)
  if (order === "question") return { text: [toolResults[0] ?? ""] }
  return { text: ["Hello", ", ", "world"] }
}

const plan = (content: string): ModelReply => {
  const todos = [
    { content, status: "in_progress", priority: "high" },
    { content: "later", status: "pending", priority: "low" },
  ]
  return { tool: "todowrite", arguments: { todos } }
}

const question = (text: string): ModelReply => {
  const options = ["red", "blue"].map((label) => ({ label, description: label }))
  const questions = text.split("+").map((each) => ({ question: each, header: each, options }))
  return { tool: "question", arguments: { questions } }
}

const write = (filePath: string, toolResults: readonly string[]): ModelReply => {
  if (toolResults.length === 0)
    return { tool: "write", arguments: { filePath, content: "by the agent" } }
  return toolResults.length === 1 ? run("cat made.txt") : { text: [toolResults[1] ?? ""] }
}

/** The asks and answers among the events, in order. */
const asksIn = ({ events }: Told): object[] =>
  events.flatMap((body): object[] =>
    /^(permission|question)\./.test(body.type) ? [{ ...body, ask: undefined }] : [],
  )

describe("OpenCode", { timeout: TEST_LIMIT_MS }, () => {
  let stage: Stage
  let before: string | undefined
  let report: AgentReport
  const ends: (() => Promise<void>)[] = []
  beforeAll(async () => {
    const config = { permission: { bash: { "*": "allow", "touch *": "ask" } } }
    const options = { script: obedient, config } as const
    stage = await makeStage(options, (end) => ends.push(end))
    before = stage.agent.trouble()
    report = await stage.agent.start(never, ignore)
    await stage.agent.attach(stage.repo, never)
  }, TEST_LIMIT_MS)
  afterAll(async () => {
    for (const end of ends) await end()
  })

  it("[R3.6] starts, takes a directory, and answers a prompt as deltas", async () => {
    expect(before).toBeDefined()
    expect(report.facts).toMatchObject({ version: "1.18.33", pid: expect.any(Number) })
    expect(stage.agent.trouble()).toBeUndefined()

    const told = await ask(stage.agent, "greet me")
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "Hello, world" })
    const types = told.types.filter((type) => type !== "usage")
    expect(new Set(types.slice(0, -1))).toEqual(new Set(["message.delta"]))
    expect(types.at(-1)).toBe("message.completed")
  })

  it("[R3.6] writes a file, runs a command, and reports both", async () => {
    const path = join(stage.repo, "made.txt")
    const told = await ask(stage.agent, `write: ${path}`)
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "by the agent" })
    expect(readFileSync(path, "utf8")).toBe("by the agent")
    const tools = told.events.filter(({ type }) => /^(tool|file)/.test(type))
    expect(tools).toMatchObject([
      { type: "tool.started", tool: "write", input: expect.stringContaining("by the agent") },
      { type: "file.changed", path },
      { type: "tool.completed", failed: false, output: expect.any(String) },
      { type: "tool.started", tool: "bash", input: expect.stringContaining("cat made.txt") },
      { type: "tool.completed", failed: false, output: "by the agent" },
    ])
  })

  it("[R3.6] tells its plan, its usage, and the beginning of a tool's output", async () => {
    const planned = await ask(stage.agent, "plan: one")
    expect(planned.events).toContainEqual(
      expect.objectContaining({
        type: "todo.updated",
        todos: [
          { text: "one", state: "active" },
          { text: "later", state: "pending" },
        ],
      }),
    )
    const usages = planned.events.filter(({ type }) => type === "usage")
    expect(usages.length).toBeGreaterThanOrEqual(1)
    const [first, last] = [usages[0], usages.at(-1)] as { inputTokens: number }[]
    expect(last?.inputTokens).toBeGreaterThan(0)
    expect(last?.inputTokens).toBeGreaterThanOrEqual(first?.inputTokens ?? 0)
    const loud = await ask(stage.agent, "run: head -c 20000 /dev/zero | tr '\\0' x")
    const output = loud.events.find(({ type }) => type === "tool.completed")
    expect(output).toMatchObject({ output: "x".repeat(MAX_TOOL_TEXT_CHARS) })
    for (const { events } of [planned, loud])
      for (const body of events) expect(EventBody.safeParse(body).error).toBeUndefined()
  })

  it("passes the paths of a prompt's attachments to the model", async () => {
    await ask(stage.agent, "look", { attachments: ["/tmp/a picture.png"] })
    expect(stage.model.turns.at(-1)?.prompt).toContain("look")
    expect(stage.model.turns.at(-1)?.prompt).toContain("/tmp/a picture.png")
  })

  it("[R3.3] stops within a second while a tool runs, ends the tool's processes, and takes the next prompt", async () => {
    const { agent } = stage
    const session = newId.session()
    const before = stage.family.running().length
    const stop = new AbortController()
    const command = "(setsid sleep 1000 &); sleep 1000"
    const running = ask(agent, `run: ${command}`, { session, signal: stop.signal })
    await until(() => stage.family.running().length >= before + 2)
    const stoppedAtMs = performance.now()
    stop.abort()
    const told = await running
    expect(performance.now() - stoppedAtMs).toBeLessThan(1_000)
    expect(told.result.state).toBe("stopped")
    expect(told.types.filter((type) => type !== "usage")).toEqual([
      ...["tool.started", "tool.completed"],
    ])
    await until(() => stage.family.running().length <= before)
    expect(await ask(agent, "again", { session })).toMatchObject({
      result: { state: "succeeded" },
      text: "Hello, world",
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
    expect(told.types).toEqual(["message.delta", "message.completed"])
  })

  it("runs the prompts of two sessions at the same time, and answers each with its own text", async () => {
    const told = await Promise.all(["one", "two"].map((text) => ask(stage.agent, `say: ${text}`)))
    expect(told.map(({ text }) => text)).toEqual(["one", "two"])
  })

  it.each([400, 401])(
    "fails without another try, in the provider's own words, on status %i",
    async (status) => {
      const told = await ask(stage.agent, `fail: ${status}`)
      expect(told.result).toEqual({ state: "failed", reason: "this model is out of order" })
      expect(told.events).toMatchObject([
        { type: "error", code: "agent.failed", message: "this model is out of order" },
      ])
    },
  )

  it("tries again twice on status 429, then fails", async () => {
    const told = await ask(stage.agent, "fail: 429")
    expect(told.result).toEqual({ state: "failed", reason: expect.any(String) })
    expect(told.types).toEqual(["warning", "warning", "error"])
    expect(await ask(stage.agent, "greet me")).toMatchObject({ text: "Hello, world" })
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
    // The port of its last process, if there were several.
    const log = readFileSync(join(logs, "opencode.log"), "utf8")
    const port = [...log.matchAll(/127\.0\.0\.1:(\d+)/g)].at(-1)?.[1]
    expect((await fetch(`http://127.0.0.1:${port}/global/health`)).status).toBe(401)
  })

  it("is allowed the acts that it asks for where no person is asked, and has its questions declined", async () => {
    const told = await ask(stage.agent, "run: touch allowed.txt")
    expect(told.result).toEqual({ state: "succeeded" })
    expect(existsSync(join(stage.repo, "allowed.txt"))).toBe(true)
    expect(asksIn(told)).toMatchObject([
      { type: "permission.asked", about: "bash: touch allowed.txt" },
      { type: "permission.answered", allowed: true },
    ])
    const asked = await ask(stage.agent, "question: Which colour?")
    expect(asked.result).toEqual({ state: "succeeded" })
    expect(asked.text).toContain("decide for yourself")
    expect(asksIn(asked)).toMatchObject([
      { type: "question.asked", question: "Which colour?", choices: ["red", "blue"] },
      { type: "question.answered", answer: null },
    ])
  })

  it("fails a prompt whose event stream breaks, and ends its work on it, while prompts of other sessions go on", async () => {
    const { agent } = stage
    const pid = stage.processes.get("opencode")?.status().pid
    const streams: ClientRequest[] = []
    const onRequest = (message: unknown) => {
      const { request } = message as { readonly request: ClientRequest }
      if (request.path.startsWith("/event")) streams.push(request)
    }
    subscribe("http.client.request.start", onRequest)
    onTestFinished(() => void unsubscribe("http.client.request.start", onRequest))
    const stop = new AbortController()
    const heard = Promise.withResolvers<void>()
    const other = { signal: stop.signal, onEvent: () => heard.resolve() }
    const bystander = ask(agent, "hang", other)
    await heard.promise
    const session = newId.session()
    const told = await ask(agent, "hang", {
      session,
      onEvent: ({ type }) => type === "message.delta" && streams.at(-1)?.destroy(),
    })
    expect(told.result.state).toBe("failed")
    // OpenCode no longer works on the failed prompt, so the session's next prompt runs.
    expect(await ask(agent, "again", { session })).toMatchObject({ text: "Hello, world" })
    stop.abort()
    expect((await bystander).result).toEqual({ state: "stopped" })
    expect(stage.processes.get("opencode")?.status().pid).toBe(pid)
  })

  const ENDS_OF_A_LIFE: [string, () => Promise<void>][] = [
    [
      "[R3.3] is ended when it does not stop: its session goes on, and other sessions' prompts are interrupted",
      async () => {
        const { agent } = stage
        const session = newId.session()
        await ask(agent, "remember me", { session })
        const pid = stage.processes.get("opencode")?.status().pid as number
        const other = newId.session()
        const heard = Promise.withResolvers<void>()
        const bystander = ask(agent, "hang", { session: other, onEvent: () => heard.resolve() })
        await heard.promise
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
        // The first question and its answer are still part of the request to the model.
        expect(stage.model.turns.at(-1)?.userTexts).toContain("remember me")
        // The other session's prompt has not failed: how far it got is unknown.
        const interrupted = await bystander
        expect(interrupted.result).toEqual({
          state: "interrupted",
          reason: expect.stringContaining("another session"),
        })
        expect(interrupted.types).toEqual(["message.delta", "message.completed"])
        expect(await ask(agent, "again", { session: other })).toMatchObject({
          text: "Hello, world",
        })
      },
    ],
    [
      "starts again after a crash, and runs the next prompt in the repo",
      async () => {
        const { agent } = stage
        const pid = stage.processes.get("opencode")?.status().pid as number
        const crashed = await ask(agent, "hang", {
          onEvent: ({ type }) => type === "message.delta" && process.kill(pid, "SIGKILL"),
        })
        expect(crashed.result).toMatchObject({ state: "failed" })
        expect(crashed.types).toEqual(["message.delta", "message.completed", "error"])
        const told = await ask(agent, "run: pwd > where.txt")
        expect(told.result).toEqual({ state: "succeeded" })
        expect(readFileSync(join(stage.repo, "where.txt"), "utf8").trim()).toBe(stage.repo)
      },
    ],
  ]
  // Each case needs another start of OpenCode.
  it.each(sampled("ends of OpenCode's process", ENDS_OF_A_LIFE, 1))("%s", async (_, work) => {
    await work()
  })

  describe("in another sandbox, where a person is asked,", () => {
    const session = newId.session()
    let asking: ReturnType<Stage["another"]>
    beforeAll(async () => {
      await ask(stage.agent, "remember me", { session })
      await stage.processes.stop()
      asking = stage.another({ permissions: "ask" })
      await started(stage, asking.agent)
    }, TEST_LIMIT_MS)

    /** Answers each ask when it comes, and notes whether the answer was taken. */
    const answering = (answerTo: (ask: string, place: number) => AskAnswer) => {
      const taken: boolean[] = []
      const onEvent = (body: EventBody) => {
        if (body.type === "permission.asked" || body.type === "question.asked")
          taken.push(asking.agent.answer(body.prompt, answerTo(body.ask, taken.length)))
      }
      return { taken, onEvent }
    }

    it("[R3.5] goes on with a conversation, from OpenCode's own files, and asks though all was allowed when it began", async () => {
      const { taken, onEvent } = answering((ask) => ({ kind: "permission", ask, allow: false }))
      const told = await ask(asking.agent, "run: echo begun > begun.txt", { session, onEvent })
      expect(told.result).toEqual({ state: "succeeded" })
      expect(taken).toEqual([true])
      expect(existsSync(join(stage.repo, "begun.txt"))).toBe(false)
      expect(asksIn(told).at(-1)).toMatchObject({ type: "permission.answered", allowed: false })
      expect(stage.model.turns.at(-1)?.messages).toBeGreaterThan(3)
      await ask(asking.agent, "a conversation of its own")
      expect(stage.model.turns.at(-1)?.messages).toBeLessThanOrEqual(3)
    })

    it.each([
      ["bash", 1],
      ["write", 1],
      // The person is asked for the subagent, and then for its act.
      ["task", 2],
    ])(
      "runs %s only after the person's answer, in a repo that allows it everything",
      async (tool, questions) => {
        const repo = join(stage.directory, `generous-${tool}`)
        writeGenerousConfig(repo)
        const file = join(repo, "made")
        const before: boolean[] = []
        const onEvent = (body: EventBody) => {
          if (body.type !== "permission.asked") return
          before.push(existsSync(file))
          asking.agent.answer(body.prompt, { kind: "permission", ask: body.ask, allow: true })
        }
        await asking.agent.attach(repo, never)
        const asked = ask(asking.agent, `make ${tool}: ${file}`, { onEvent })
        await Promise.allSettled([asked])
        await asking.agent.attach(stage.repo, never)
        const told = await asked
        expect(told.result, JSON.stringify(told.events)).toEqual({ state: "succeeded" })
        expect(before).toEqual(Array(questions).fill(false))
        expect(existsSync(file)).toBe(true)
        expect(asksIn(told).at(-1)).toMatchObject({ type: "permission.answered", allowed: true })
      },
    )

    it.each([
      ["scripted/none", "scripted has no such model; it has scripted-1"],
      [
        "some-vendor/best",
        "it has no key for some-vendor, or knows no such provider; the key is passed with --key, such as --key SOME_VENDOR_API_KEY",
      ],
    ])("says why it cannot use the model %s", async (model, reason) => {
      const client = stage.clientOf(asking.processes)
      const where = `?directory=${encodeURIComponent(stage.repo)}`
      await expect(
        requireModel(parseModel(model), { client, where, signal: never }),
      ).rejects.toMatchObject({
        code: "agent.not_set_up",
        message: `OpenCode cannot use the model ${model}: ${reason}`,
      })
    })

    it("waits for the answers to all of several questions", async () => {
      const { taken, onEvent } = answering((ask, place) => ({
        kind: "question",
        ask,
        answer: ["red", "some other"][place] ?? "",
      }))
      const told = await ask(asking.agent, "question: One?+Two?", { onEvent })
      expect(taken).toEqual([true, true])
      expect(told.text).toContain('"One?"="red"')
      expect(told.text).toContain('"Two?"="some other"')
      expect(asksIn(told)).toMatchObject([
        ...[
          { question: "One?" },
          { question: "Two?" },
          { answer: "red" },
          { answer: "some other" },
        ],
      ])
    })

    it("takes no for an answer, refuses answers to other asks, and can be stopped while it asks", async () => {
      const { onEvent } = answering((ask) => ({ kind: "question", ask, answer: null }))
      const told = await ask(asking.agent, "question: One?", { onEvent })
      expect(asksIn(told).at(-1)).toMatchObject({ type: "question.answered", answer: null })

      const stop = new AbortController()
      const taken: boolean[] = []
      const stopped = await ask(asking.agent, "run: touch never.txt", {
        signal: stop.signal,
        onEvent: (body) => {
          if (body.type !== "permission.asked") return
          const other = { kind: "permission", ask: "per_other", allow: true } as const
          const wrong = { kind: "question", ask: body.ask, answer: "yes" } as const
          for (const answer of [other, wrong]) taken.push(asking.agent.answer(body.prompt, answer))
          taken.push(asking.agent.answer(newId.prompt(), { ...other, ask: body.ask }))
          stop.abort()
        },
      })
      expect(taken).toEqual([false, false, false])
      expect(stopped.result.state).toBe("stopped")
    })

    it("leaves no process behind when it is stopped in the middle of a tool's work", async () => {
      const deep =
        "run: (setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000"
      const { onEvent } = answering((ask) => ({ kind: "permission", ask, allow: true }))
      const running = ask(asking.agent, deep, { onEvent })
      await until(() => stage.family.running().length >= 5)
      await asking.processes.stop()
      expect(stage.family.running()).toEqual([])
      expect((await running).result.state).toBe("failed")
    })
  })
})
