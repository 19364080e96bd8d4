import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { fastClock } from "../../processes/testing/fast-clock.ts"
import { until } from "../../processes/testing/until.ts"
import type { Agent, AgentReport } from "../agent.ts"
import { ask, ignore, never } from "../testing/ask.ts"
import { makeStage, SCRIPTED, started } from "./testing/stage.ts"
import { MAX_UNANSWERED } from "./unanswered.ts"

/** Covers the start of a node process on a busy machine. */
const TEST_LIMIT_MS = 60_000

describe("an agent over ACP", { timeout: TEST_LIMIT_MS }, () => {
  let stage: ReturnType<typeof makeStage>
  let agent: Agent
  let before: string | undefined
  let report: AgentReport
  const ends: (() => Promise<void>)[] = []
  beforeAll(async () => {
    stage = makeStage({ keys: { SOME_KEY: "a-key-of-some-length" } }, (end) => ends.push(end))
    agent = stage.agent
    before = agent.trouble()
    report = await agent.start(never, ignore)
    await agent.attach(stage.repo, never)
  })
  afterAll(async () => {
    for (const end of ends) await end()
  })

  it("[R3.6] starts, reports its name and version, and answers prompts with its text, plan, tool calls and usage", async () => {
    expect(before).toBeDefined()
    expect(report.facts).toMatchObject({ agent: "scripted", version: "7" })
    expect(agent.trouble()).toBeUndefined()

    const told = await ask(stage.agent, "say: Hello, |world")
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "Hello, world" })
    expect(told.types).toEqual(["message.delta", "message.delta", "usage", "message.completed"])
    expect(told.events).toContainEqual(
      expect.objectContaining({ type: "usage", inputTokens: 10, outputTokens: 2 }),
    )
    const planned = await ask(stage.agent, "plan: first")
    expect(planned.events).toContainEqual(
      expect.objectContaining({
        type: "todo.updated",
        todos: [
          { text: "first", state: "active" },
          { text: "later", state: "pending" },
        ],
      }),
    )
    const tool = await ask(stage.agent, "tool: /a/file")
    expect(tool.events.filter(({ type }) => type !== "usage")).toMatchObject([
      ...[{ text: "before" }, { type: "message.completed" }],
      { type: "tool.started", tool: "look", input: '{"path":"/a/file"}' },
      { type: "file.changed", path: "/a/file" },
      { type: "tool.completed", failed: false, output: "done it" },
      ...[{ text: "after" }, { type: "message.completed" }],
    ])
    for (const { events } of [told, planned, tool])
      for (const body of events) expect(EventBody.safeParse(body).error).toBeUndefined()
    const attached = await ask(stage.agent, "say", { attachments: ["/tmp/a picture.png"] })
    expect(attached.text).toContain("file:///tmp/a%20picture.png")
  })

  it("gets a bounded number of its questions accepted at once, and works on", async () => {
    const stage = makeStage({ permissions: "ask" })
    const agent = await started(stage)
    const told = await ask(agent, `pester: 400 ${MAX_UNANSWERED}`)
    expect(told).toMatchObject({
      result: { state: "succeeded" },
      text: String(400 - MAX_UNANSWERED),
    })
    const asked = told.types.filter((type) => type === "permission.asked")
    expect(asked.length).toBeLessThanOrEqual(MAX_UNANSWERED)
    expect((await ask(agent, "say: on")).text).toBe("on")
  })

  it("gets 64 terminals when it asks for 70 at once", async () => {
    const agent = await started(makeStage())
    expect((await ask(agent, "open: 70")).text).toBe("64")
  })

  it("is not heard in a message that is nested 20,000 deep, and works on", async () => {
    const told = await ask(agent, "nest: 20000")
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "still here" })
    expect(told.types).not.toContain("tool.started")
  })

  it("reads and writes files and runs commands through the supervisor", async () => {
    const path = join(stage.repo, "deep/er/file.txt")
    const written = await ask(agent, `write: ${path}`)
    expect(written.result).toEqual({ state: "succeeded" })
    expect(written.events).toContainEqual(expect.objectContaining({ type: "file.changed", path }))
    expect(readFileSync(path, "utf8")).toBe("written\n")
    writeFileSync(path, "one\ntwo\nthree\nfour\n")
    expect((await ask(agent, `read: ${path}`)).text).toBe("one\ntwo\nthree\nfour\n")
    expect((await ask(agent, `read: ${path} 2 2`)).text).toBe("two\nthree\n")
    const missing = await ask(agent, "read: /nonexistent")
    expect(missing.result.reason).toMatch(/nonexistent/)

    const run = async (command: string) => JSON.parse((await ask(agent, `run: ${command}`)).text)
    const exit = { exitCode: 3, signal: null }
    expect(await run("pwd >&2; exit 3")).toMatchObject({ ...exit, truncated: true })
    expect(await run("printf short; exit 3")).toEqual({
      ...exit,
      output: "short",
      truncated: false,
    })
    expect(await run("kill -TERM $$")).toMatchObject({ exitCode: null, signal: "SIGTERM" })
    expect(stage.family.running()).toHaveLength(1)
  })

  requires("root").it("reads, writes and runs as the sandbox's user, never as root", async () => {
    const stage = makeStage({ user: { uid: 1000, gid: 1000 } })
    const agent = await started(stage)
    const [secret, own] = [join(stage.directory, "secret"), join(stage.repo, "own")]
    writeFileSync(secret, "of root", { mode: 0o600 })
    for (const order of [`read: ${secret}`, `write: ${secret}`, `write: ${stage.directory}/new`]) {
      const told = await ask(agent, order)
      expect(told.result).toEqual({
        state: "failed",
        reason: expect.stringMatching(/Permission denied/i),
      })
      expect(told.text).toBe("")
    }
    expect(readFileSync(secret, "utf8")).toBe("of root")
    await ask(agent, `write: ${own}`)
    const kept = join(stage.home, ".local/share/berth/acp-sessions.json")
    for (const path of [own, kept]) expect(statSync(path).uid).toBe(1000)
    expect(JSON.parse((await ask(agent, "run: id -u")).text).output).toBe("1000\n")
    const { pid } = stage.processes.get("acp")?.status() ?? {}
    expect(statSync(`/proc/${pid}`).uid).toBe(1000)
  })

  it.each([
    ["allow", "yes", true],
    ["deny", "no", false],
  ] as const)(
    "has its questions answered by the permissions %s",
    async (permissions, option, allowed) => {
      const agent = await started(makeStage({ permissions }))
      const told = await ask(agent, "permission: rm -rf")
      expect(told.text).toBe(option)
      const asked = {
        type: "permission.asked",
        ask: "permission-1",
        about: 'rm -rf: {"force":true}',
      }
      const answered = { type: "permission.answered", ask: "permission-1", allowed }
      expect(
        told.events.filter(({ type }) => /^(permission|tool.started)/.test(type)),
      ).toMatchObject([...[{ type: "tool.started", call: "call-2" }, asked, answered]])
    },
  )

  it("waits for a person's answer under the permissions ask", async () => {
    const agent = await started(makeStage({ permissions: "ask" }))
    for (const allow of [true, false]) {
      const taken: boolean[] = []
      const told = await ask(agent, "permission: rm", {
        onEvent: (body) => {
          if (body.type !== "permission.asked") return
          const answer = { kind: "permission", ask: body.ask, allow } as const
          taken.push(agent.answer(newId.prompt(), answer))
          taken.push(agent.answer(body.prompt, { ...answer, ask: "other" }))
          taken.push(agent.answer(body.prompt, answer), agent.answer(body.prompt, answer))
        },
      })
      expect(taken).toEqual([false, false, true, false])
      expect(told.text).toBe(allow ? "yes" : "no")
    }
    const stop = new AbortController()
    const stopped = await ask(agent, "permission: rm", {
      signal: stop.signal,
      onEvent: ({ type }) => type === "permission.asked" && stop.abort(),
    })
    expect(stopped).toMatchObject({ result: { state: "stopped" }, text: "cancelled" })
  })

  it("runs prompts of several sessions at the same time, and answers each with its own text", async () => {
    const all = ["one", "two", "three"].map((text) => ask(agent, `say: ${text}`))
    expect((await Promise.all(all)).map(({ text }) => text)).toEqual(["one", "two", "three"])
  })

  it("has its keys in its environment, not in its arguments nor in the environment of its commands", async () => {
    expect((await ask(agent, "environment: SOME_KEY")).text).toBe("a-key-of-some-length")
    const { pid } = stage.processes.get("acp")?.status() ?? {}
    expect(readFileSync(`/proc/${pid}/cmdline`, "latin1")).not.toContain("a-key")
    expect(JSON.parse((await ask(agent, "run: echo $SOME_KEY")).text).output).toBe("\n")
  })

  it("is set to the mode that the workspace names, or fails the prompt in its own words", async () => {
    const stage = makeStage({ mode: "careful" })
    expect((await ask(await started(stage), "mode")).text).toBe("careful")
    const reckless = stage.another({ mode: "reckless" }).agent
    const told = await ask(await started({ ...stage, agent: reckless }), "mode")
    expect(told.result).toMatchObject({ state: "failed" })
    expect(told.result.reason).toContain("no mode reckless")
  })

  it("fails a prompt in its own words", async () => {
    const told = await ask(agent, "fail: -32603")
    expect(told.result).toEqual({
      state: "failed",
      reason: "it went wrong: the model refused",
    })
    expect(told.events).toMatchObject([{ type: "error", code: "agent.failed" }])
    const locked = await ask(agent, "fail: -32000")
    expect(locked.result.reason).toContain("is not logged in")
  })

  it("goes on after output that is no message", async () => {
    expect(await ask(agent, "garbage")).toMatchObject({
      result: { state: "succeeded" },
      text: "still here",
    })
  })

  it("waits for a slow reader of its events, and loses none", async () => {
    let [waiting, most] = [0, 0]
    const told = await ask(agent, "flood: 3000", {
      onEvent: async () => {
        most = Math.max(most, ++waiting)
        await new Promise((resolve) => setImmediate(resolve))
        waiting--
      },
    })
    expect(told.text).toHaveLength(3_000_000)
    expect(most).toBe(1)
  })
})

describe("a conversation over ACP", { timeout: TEST_LIMIT_MS }, () => {
  it("[R3.5] goes on in another sandbox, without its past being told again", async () => {
    const stage = makeStage()
    const session = newId.session()
    await ask(await started(stage), "say: one", { session })
    await stage.processes.stop()
    const second = await started({ ...stage, agent: stage.another().agent })
    const told = await ask(second, "remember", { session })
    expect(told.text).toBe("say: one")
    expect((await ask(second, "remember")).text).toBe("")
  })

  it("that the agent does not remember begins anew, with a warning", async () => {
    const stage = makeStage({ command: [...SCRIPTED, "forgetful"] })
    const session = newId.session()
    await ask(await started(stage), "say: one", { session })
    await stage.processes.stop()
    const second = await started({ ...stage, agent: stage.another().agent })
    const told = await ask(second, "remember", { session })
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "" })
    expect(told.events[0]).toMatchObject({
      type: "warning",
      message: expect.stringContaining("does not remember"),
    })
    expect((await ask(second, "remember", { session })).text).toBe("remember")
  })
})

const isSleep = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8") === "sleep\n"
  } catch {
    return false
  }
}

describe("a stop over ACP", { timeout: TEST_LIMIT_MS }, () => {
  it("[R3.3] ends a prompt within a second, with the processes that it ran and that were run for it", async () => {
    const stage = makeStage()
    const agent = await started(stage)
    const session = newId.session()
    const { pid } = stage.processes.get("acp")?.status() ?? {}
    for (const text of ["wait", "leave: (trap '' TERM; sleep 1000) & sleep 1000"]) {
      const stop = new AbortController()
      const running = ask(agent, text, { session, signal: stop.signal })
      // Waits until no shell is about to start another process, which the stop would not reach.
      await until(() => {
        const running = stage.family.running()
        return running.filter(isSleep).length === 2 && (text !== "wait" || running.length === 3)
      })
      const beganAtMs = performance.now()
      stop.abort()
      expect((await running).result).toEqual({ state: "stopped" })
      expect(performance.now() - beganAtMs).toBeLessThan(1_000)
      expect(stage.family.running()).toEqual([pid])
      expect((await ask(agent, "say: again", { session })).text).toBe("again")
    }
    expect(stage.processes.get("acp")?.status().pid).toBe(pid)
  })

  it("[R3.3] that the agent ignores ends its process within a second, with the processes that it ran, and the conversation goes on", async () => {
    const stage = makeStage()
    const agent = await started(stage)
    const session = newId.session()
    await ask(agent, "say: one", { session })
    const stop = new AbortController()
    const running = ask(agent, "ignore", { session, signal: stop.signal })
    await until(() => stage.family.running().length >= 4)
    const before = stage.family.running()
    const beganAtMs = performance.now()
    stop.abort()
    expect((await running).result).toEqual({
      state: "stopped",
      reason: expect.stringContaining("its process was ended"),
    })
    expect(performance.now() - beganAtMs).toBeLessThan(1_000)
    expect(stage.family.running().filter((pid) => before.includes(pid))).toEqual([])
    expect((await ask(agent, "remember", { session })).text).toBe("say: one")
  })

  it("[R3.3] that the agent ignores interrupts the prompts of other sessions, whose conversations go on afterwards", async () => {
    const agent = await started(makeStage())
    const other = newId.session()
    await ask(agent, "say: one", { session: other })
    const heard = Promise.withResolvers<void>()
    const bystander = ask(agent, "wait", { session: other, onEvent: () => heard.resolve() })
    await heard.promise
    const stop = new AbortController()
    const stopped = await ask(agent, "ignore", {
      signal: stop.signal,
      onEvent: ({ type }) => type === "message.delta" && stop.abort(),
    })
    expect(stopped.result).toMatchObject({ state: "stopped" })
    const interrupted = await bystander
    expect(interrupted.result).toEqual({
      state: "interrupted",
      reason: expect.stringContaining("another session"),
    })
    expect(interrupted.types).not.toContain("error")
    expect((await ask(agent, "remember", { session: other })).text).toBe("say: one")
  })
})

it("[R3.3] interrupts a prompt that loses the agent twice by others' stops while its conversation is opened", {
  timeout: TEST_LIMIT_MS,
}, async () => {
  const stage = makeStage()
  const agent = await started(stage)
  const other = newId.session()
  await ask(agent, "say: one", { session: other })
  const unopened = join(stage.home, "scripted-unopened")
  writeFileSync(unopened, "")
  const opening = ask(agent, "say: on")
  for (const asked of [".", ".."]) {
    await until(() => readFileSync(unopened, "utf8") === asked)
    const stop = new AbortController()
    await ask(agent, "ignore", {
      session: other,
      signal: stop.signal,
      onEvent: ({ type }) => type === "message.delta" && stop.abort(),
    })
  }
  const interrupted = await opening
  expect(interrupted.result).toEqual({
    state: "interrupted",
    reason: expect.stringContaining("another session"),
  })
  expect(interrupted.types).not.toContain("error")
})

describe("an agent over ACP that misbehaves", { timeout: TEST_LIMIT_MS }, () => {
  it("is named in the error when it is not installed", async () => {
    for (const program of ["no-such-agent", "/opt/no/such-agent"]) {
      const { agent } = makeStage({ command: [program, "acp"] })
      await expect(agent.start(never, ignore)).rejects.toMatchObject({
        code: "agent.not_installed",
        message: expect.stringContaining(program),
        details: { program },
      })
    }
  })

  it("crashes: the prompt fails, and the next prompt finds the agent again with its memory", async () => {
    const agent = await started(makeStage())
    const session = newId.session()
    await ask(agent, "say: one", { session })
    const crashed = await ask(agent, "crash", { session })
    expect(crashed.result).toMatchObject({ state: "failed" })
    expect(crashed.events).toMatchObject([{ type: "error", code: "agent.unavailable" }])
    expect((await ask(agent, "remember", { session })).text).toBe("say: one")
  })

  it("closes its output while it works: its process is ended, the prompts say why, and all sessions go on with their memory", async () => {
    const stage = makeStage()
    const agent = await started(stage)
    const [idle, other] = [newId.session(), newId.session()]
    await ask(agent, "say: one", { session: idle })
    const alone = await ask(agent, "close: 1", { session: idle })
    const why = expect.stringMatching(/closed its connection and did not exit/)
    expect(alone.result).toEqual({ state: "failed", reason: why })
    expect(alone.events.at(-1)).toMatchObject({ type: "error", code: "agent.unavailable" })
    expect((await ask(agent, "remember", { session: idle })).text).toBe("say: one")
    await ask(agent, "say: two", { session: other })
    const heard = Promise.withResolvers<void>()
    const bystander = ask(agent, "wait", { session: other, onEvent: () => heard.resolve() })
    await heard.promise
    const before = stage.family.running()
    const results = [await ask(agent, "close: 1"), await bystander]
    for (const { result, types } of results) {
      expect(result).toEqual({ state: "interrupted", reason: why })
      expect(types).not.toContain("error")
    }
    expect(stage.family.running().filter((pid) => before.includes(pid))).toEqual([])
    expect((await ask(agent, "remember", { session: other })).text).toBe("say: two")
    expect((await ask(agent, "remember", { session: idle })).text).toBe("say: one,remember")
  })

  it("closes its input while it works: a prompt that it did not get runs in its next process", async () => {
    const agent = await started(makeStage())
    const heard = Promise.withResolvers<void>()
    const broken = ask(agent, "close: 0", { onEvent: () => heard.resolve() })
    await heard.promise
    expect(await ask(agent, "say: on")).toMatchObject({
      result: { state: "succeeded" },
      text: "on",
    })
    expect((await broken).result).toMatchObject({ state: "failed" })
  })

  it("closes its input while it works, and nobody writes to it: its process is ended, and the prompt says why", async () => {
    const agent = await started(makeStage())
    const session = newId.session()
    await ask(agent, "say: one", { session })
    const { result, events } = await ask(agent, "close: 0", { session })
    const why = expect.stringMatching(/closed its connection and did not exit/)
    expect(result).toEqual({ state: "failed", reason: why })
    expect(events.at(-1)).toMatchObject({ type: "error", code: "agent.unavailable" })
    expect((await ask(agent, "remember", { session })).text).toBe("say: one")
  })

  it("closes its input, and ends its turn at once: the prompt has succeeded", async () => {
    const agent = await started(makeStage())
    expect((await ask(agent, "deafen: bye")).text).toBe("bye")
    expect((await ask(agent, "say: on")).text).toBe("on")
  })

  it("does not start at all: it is given up with its last words", async () => {
    const command = ["/bin/sh", "-c", "echo no licence >&2; exit 3"] as const
    const { agent } = makeStage({ command, restartClock: fastClock })
    await expect(agent.start(never, ignore)).rejects.toMatchObject({ code: "process.given_up" })
    expect(agent.lastOutput()).toContain("no licence")
  })

  it("leaves only its list of conversations in Berth's folder of the home", async () => {
    const stage = makeStage()
    await ask(await started(stage), "say: one")
    expect(readdirSync(join(stage.home, ".local/share/berth"))).toEqual(["acp-sessions.json"])
  })
})
