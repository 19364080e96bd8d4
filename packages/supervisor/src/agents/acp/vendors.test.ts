import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { type ModelReply, type ModelTurn, startScriptedModel } from "@berth/testing/scripted-model"
import { describe, expect, it, onTestFinished } from "vitest"
import { until } from "../../processes/testing/until.ts"
import { ask } from "../testing/ask.ts"
import { makeStage, started } from "./testing/stage.ts"

/** A cold start takes seconds of CPU; this covers a busy machine. */
const TEST_LIMIT_MS = 90_000

const KEY = "sk-scripted-0123456789"
const BIN = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "../.bin")
const PATH = `${dirname(process.execPath)}:${process.env.PATH}`

/** Each runs a command by a tool of its own. */
const AGENTS = {
  claude: (port: number) => ({
    command: [join(BIN, "claude-agent-acp")],
    keys: { ANTHROPIC_API_KEY: KEY },
    environment: {
      ...{ PATH, ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}`, IS_SANDBOX: "1" },
      ...{ CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" },
    },
    run: (command: string) => ({ tool: "Bash", arguments: { command, description: "runs it" } }),
  }),
  codex: (port: number) => ({
    command: [join(BIN, "codex-acp")],
    keys: { SCRIPTED_KEY: KEY },
    mode: "agent-full-access",
    environment: {
      ...{ PATH, NO_BROWSER: "1" },
      CODEX_CONFIG: JSON.stringify({
        ...{ model: "scripted-1", model_provider: "scripted" },
        model_providers: {
          scripted: {
            ...{ name: "scripted", base_url: `http://127.0.0.1:${port}/v1` },
            ...{ wire_api: "responses", env_key: "SCRIPTED_KEY" },
          },
        },
      }),
    },
    run: (cmd: string) => ({ tool: "exec_command", arguments: { cmd } }),
  }),
} as const

const makeVendor = async (name: keyof typeof AGENTS) => {
  let script: (turn: ModelTurn) => ModelReply = () => ({ text: ["Hello"] })
  const model = await startScriptedModel((turn) => script(turn))
  onTestFinished(() => model.close())
  const { run, ...options } = AGENTS[name](model.port)
  script = ({ prompt, toolResults }) => {
    if (prompt.includes("Be refused.")) return { status: 400, message: "no such model" }
    const [, command] = /run: (.*)/.exec(prompt) ?? []
    if (command !== undefined && toolResults.length === 0) return run(command)
    return { text: [toolResults.at(-1) ?? "Hello"] }
  }
  return { ...makeStage(options), model }
}

describe.each(Object.keys(AGENTS) as (keyof typeof AGENTS)[])("%s over ACP", (name) => {
  it("fails with its model's own words when that refuses, and goes on", {
    timeout: TEST_LIMIT_MS,
  }, async () => {
    const agent = await started(await makeVendor(name))
    const refused = await ask(agent, "Be refused.", { session: newId.session() })
    expect(refused.result).toMatchObject({
      ...{ state: "failed", reason: expect.stringContaining("no such model") },
    })
    expect(refused.types).toContain("error")
    const next = await ask(agent, "Hello.", { session: newId.session() })
    expect(next.result).toEqual({ state: "succeeded" })
  })

  it("[R3.3] [R3.5] is stopped within a second with what it runs, goes on, and remembers in another sandbox", {
    timeout: TEST_LIMIT_MS,
  }, async () => {
    const stage = await makeVendor(name)
    const agent = await started(stage)
    const session = newId.session()
    const greeted = await ask(agent, "I saw a heron.", { session })
    expect(greeted.result, JSON.stringify(greeted.events)).toEqual({ state: "succeeded" })
    const stop = new AbortController()
    const command = "run: (setsid sleep 1357 &) ; sleep 1357"
    const running = ask(agent, command, { session, signal: stop.signal })
    const sleeps = () => stage.family.running().filter(isSleep)
    await until(() => sleeps().length >= 2)
    const beganAtMs = performance.now()
    stop.abort()
    expect((await running).result.state).toBe("stopped")
    expect(performance.now() - beganAtMs).toBeLessThan(1_000)
    await until(() => sleeps().length === 0)
    expect((await ask(agent, "Go on.", { session })).result).toEqual({ state: "succeeded" })
    await stage.processes.stop()

    const second = await started({ ...stage, agent: stage.another().agent })
    const told = await ask(second, "Which bird?", { session })
    expect(told.result).toEqual({ state: "succeeded" })
    expect(told.types).not.toContain("warning")
    const said = stage.model.turns.at(-1)?.userTexts ?? []
    expect(said.some((text) => text.includes("I saw a heron."))).toBe(true)
  })
})

const isSleep = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").startsWith("sleep\0")
  } catch {
    return false
  }
}
