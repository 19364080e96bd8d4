import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { fastClock } from "../../processes/testing/fast-clock.ts"
import { until } from "../../processes/testing/until.ts"
import { ask, ignore, never } from "../testing/ask.ts"
import { makeStage } from "./testing/stage.ts"

/** A server in the place of OpenCode: says that it listens, then runs the script at each request. */
const serving = (onRequest: string): string => `
exec ${process.execPath} -e '
  const { createServer } = require("node:http")
  const server = createServer((request, response) => { ${onRequest} })
  server.listen(0, "127.0.0.1", () => {
    console.log("opencode server listening on http://127.0.0.1:" + server.address().port)
  })'`

const HEALTHY = `if (request.url === "/global/health") return response.end("{}");`
const ANSWERS = `${HEALTHY} if (request.url.startsWith("/path")) return response.end("{}");`
const CONFIGURED = `if (request.url.startsWith("/config?")) return response.end("{\\"model\\":\\"a/b\\"}");`
const TALKS = `${ANSWERS} ${CONFIGURED}
  if (request.method === "GET" && request.url.startsWith("/session")) return response.end("[]");
  if (request.url.startsWith("/session?")) return response.end(JSON.stringify({ id: "ses_1" }));
  if (request.url.includes("prompt_async")) {
    console.log("was prompted")
    return response.writeHead(204).end()
  }`

describe("a program that does not behave as OpenCode does", () => {
  it("[R2.9] that never becomes ready is waited for until the step is cancelled", async () => {
    const { agent, processes, family } = await makeStage({
      instead: "echo warming up; exec sleep 1000",
    })
    const step = new AbortController()
    const starting = agent.start(step.signal, ignore)
    await until(() => processes.get("opencode")?.lastOutput().includes("warming up"))
    expect(agent.trouble()).toBe("it has no directory yet")
    step.abort(new Error("the step took too long"))
    await expect(starting).rejects.toThrow("the step took too long")
    await processes.stop()
    expect(family.running()).toEqual([])
  })

  it("[R2.9] that crashes at once is given up with its last words, and started again when it is next attached", async () => {
    const instead = `echo "no licence"; exit 3`
    const stage = await makeStage({ instead, restartClock: fastClock })
    await expect(stage.agent.start(never, ignore)).rejects.toMatchObject({
      code: "process.given_up",
      message: expect.stringContaining("it ended with status 3"),
      details: { lastOutput: expect.stringContaining("no licence") },
    })
    expect(stage.agent.trouble()).toBeDefined()
    await expect(stage.agent.attach(stage.repo, never)).rejects.toMatchObject({
      code: "process.given_up",
    })
    expect(stage.agent.trouble()).toContain("it ended with status 3")
    writeFileSync(join(stage.directory, "instead"), `#!/bin/sh\n${serving(ANSWERS)}\n`)
    await stage.agent.attach(stage.repo, never)
    expect(stage.agent.trouble()).toBeUndefined()
  })

  it("[R2.10] that binds its port and says so only later gets no request before that", async () => {
    const late = `
      exec ${process.execPath} -e '
        const { createServer } = require("node:http")
        const { writeFileSync } = require("node:fs")
        let isReady = false
        const server = createServer((request, response) => {
          if (isReady) response.end(JSON.stringify({ version: "1" }))
          else writeFileSync(process.env.HOME + "/asked", "")
        })
        server.listen(0, "127.0.0.1", () => setTimeout(() => {
          isReady = true
          console.log("opencode server listening on http://127.0.0.1:" + server.address().port)
        }, 300))'`
    const { agent, home } = await makeStage({ instead: late })
    expect(await agent.start(never, ignore)).toMatchObject({ facts: { version: "1" } })
    expect(existsSync(join(home, "asked"))).toBe(false)
  })

  it("that binds its port and never answers is waited for until the step is cancelled", async () => {
    const { agent, processes, family } = await makeStage({
      instead: serving(`console.log("was asked")`),
    })
    const step = new AbortController()
    const starting = agent.start(step.signal, ignore)
    await until(() => processes.get("opencode")?.lastOutput().includes("was asked"))
    step.abort()
    await expect(starting).rejects.toMatchObject({ code: "cancelled" })
    await processes.stop()
    expect(family.running()).toEqual([])
  })

  it("that answers with too much, with nonsense or with status 500 fails its start", async () => {
    for (const nonsense of [
      `response.end("x".repeat(5 * 1024 * 1024))`,
      `response.end("<html>")`,
      `response.writeHead(500).end("out of order")`,
    ]) {
      const { agent } = await makeStage({ instead: serving(nonsense) })
      await expect(agent.start(never, ignore)).rejects.toMatchObject({ code: "agent.failed" })
    }
  })

  it.each([
    ["and takes no abort", ""],
    [
      "and says before it is at work that it has stopped",
      `if (request.url.includes("/abort")) return response.end("true");
       if (request.url.startsWith("/session/status")) return response.end("{}");`,
    ],
  ])(
    "that ends its event stream %s fails the prompt, and is replaced: it may still be at work",
    async (_, answers) => {
      const stage = await makeStage({
        instead: serving(`${answers} ${TALKS}
        if (request.url.startsWith("/event")) {
          response.write("data: {}\\n\\n")
          setTimeout(() => response.end(), 200)
        }`),
      })
      await stage.agent.start(never, ignore)
      await stage.agent.attach(stage.repo, never)
      const pid = stage.processes.get("opencode")?.status().pid
      const told = await ask(stage.agent, "hello")
      expect(told.result).toEqual({
        state: "failed",
        reason: "OpenCode ended while the prompt ran",
      })
      await until(() => stage.processes.get("opencode")?.status().phase === "ready")
      expect(stage.processes.get("opencode")?.status().pid).not.toBe(pid)
    },
  )

  it("that lacks the model fails the prompt before the prompt is delivered", async () => {
    const stage = await makeStage({
      model: "scripted/none",
      instead: serving(`${TALKS}
        if (request.url.startsWith("/config/providers")) return response.end("{\\"providers\\":[]}");`),
    })
    await stage.agent.start(never, ignore)
    await stage.agent.attach(stage.repo, never)
    const told = await ask(stage.agent, "hello")
    expect(told.result).toEqual({
      state: "failed",
      reason: expect.stringContaining("OpenCode cannot use the model scripted/none"),
    })
    expect(told.events).toMatchObject([{ type: "error", code: "agent.not_set_up" }])
    expect(stage.processes.get("opencode")?.lastOutput()).not.toContain("was prompted")
    expect(() => stage.another({ model: "scripted" })).toThrow("is not like provider/model")
  })

  it("that has no model but those of its vendor fails the prompt before it is given it", async () => {
    const free = { id: "opencode", options: { apiKey: "public" }, models: { "some-free": {} } }
    const stage = await makeStage({
      instead: serving(`
        if (request.url.startsWith("/config?")) return response.end("{\\"agent\\":{}}");
        if (request.url.startsWith("/config/providers")) return response.end(\`${JSON.stringify({ providers: [free] })}\`);
        ${TALKS}`),
    })
    await stage.agent.start(never, ignore)
    await stage.agent.attach(stage.repo, never)
    const told = await ask(stage.agent, "hello")
    expect(told.result).toEqual({
      state: "failed",
      reason: expect.stringContaining("OpenCode has no model: pass --model PROVIDER/MODEL"),
    })
    expect(told.events).toMatchObject([{ type: "error", code: "agent.not_set_up" }])
    expect(stage.processes.get("opencode")?.lastOutput()).not.toContain("was prompted")
  })

  it("that floods its event stream with nonsense lets a prompt be stopped all the same", async () => {
    const stage = await makeStage({
      instead: serving(`${TALKS}
        if (request.url.startsWith("/event")) {
          response.write("data: {}\\n\\n")
          const flood = () => { while (response.write("data: [" + "1,".repeat(50_000))); }
          response.on("drain", flood)
          flood()
        }`),
    })
    await stage.agent.start(never, ignore)
    await stage.agent.attach(stage.repo, never)
    const stop = new AbortController()
    const running = ask(stage.agent, "hello", { signal: stop.signal })
    await until(() => stage.processes.get("opencode")?.lastOutput().includes("was prompted"))
    stop.abort()
    expect((await running).result.state).toBe("stopped")
  })

  it("that leaves processes behind when it crashes has them ended before it starts again", async () => {
    const stage = await makeStage({
      instead: `setsid sleep 1000 & echo $! >> "$HOME/left"; ${serving(ANSWERS)}`,
    })
    await stage.agent.start(never, ignore)
    const pid = stage.processes.get("opencode")?.status().pid as number
    process.kill(pid, "SIGKILL")
    await until(() => stage.processes.get("opencode")?.status().starts === 2)
    await stage.agent.attach(stage.repo, never)
    const [first, second] = readFileSync(join(stage.home, "left"), "utf8").trim().split("\n")
    expect(stage.family.running()).not.toContain(Number(first))
    expect(stage.family.running()).toContain(Number(second))
    await stage.processes.stop()
    expect(stage.family.running()).toEqual([])
  })
})

describe("OpenCode's working directory at its start", () => {
  it("is beside the logs, empty and not writable, and the user's TMPDIR stays empty", async () => {
    const before = process.umask(0o077)
    onTestFinished(() => void process.umask(before))
    const { agent, another, processes, directory } = await makeStage({ instead: serving(ANSWERS) })
    await agent.start(never, ignore)
    const place = join(directory, "berth-opencode")
    expect(readlinkSync(`/proc/${processes.get("opencode")?.status().pid}/cwd`)).toBe(place)
    expect(lstatSync(place).mode & 0o7777).toBe(0o555)
    expect(readdirSync(join(directory, "tmp"))).toEqual([])
    await another().agent.start(never, ignore)
    expect(readdirSync(place)).toEqual([])
  })

  it("is not the target of a link in its place", async () => {
    const { agent, directory, home } = await makeStage({ instead: serving(ANSWERS) })
    const { mode } = statSync(home)
    symlinkSync(home, join(directory, "berth-opencode"))
    await expect(agent.start(never, ignore)).rejects.toMatchObject({ code: "process.start_failed" })
    expect(statSync(home).mode).toBe(mode)
  })
})
