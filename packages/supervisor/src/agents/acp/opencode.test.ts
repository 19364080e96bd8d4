import { readFileSync } from "node:fs"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { furtherCases } from "@berth/testing/further-cases"
import { opencodeBinary, scriptedConfig, writeOpencodeConfig } from "@berth/testing/opencode"
import {
  type ModelReply,
  type ModelTurn,
  type ScriptedModel,
  startScriptedModel,
} from "@berth/testing/scripted-model"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { until } from "../../processes/testing/until.ts"
import type { Agent } from "../agent.ts"
import { ask } from "../testing/ask.ts"
import { makeStage, started } from "./testing/stage.ts"

/** A cold start takes seconds of CPU; this covers a busy machine. */
const TEST_LIMIT_MS = 120_000

const ENVIRONMENT = {
  OPENCODE_DISABLE_AUTOUPDATE: "1",
  OPENCODE_DISABLE_MODELS_FETCH: "1",
  OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
}

/** "write: PATH" writes a file and looks at it, "run: COMMAND" runs it, "fail: STATUS" fails. */
const obedient = ({ prompt, toolResults }: ModelTurn): ModelReply => {
  const [, order, what = ""] = /(run|write|fail): (.*)/.exec(prompt) ?? []
  const run = (command: string): ModelReply => ({
    tool: "bash",
    arguments: { command, description: "runs" },
  })
  if (order === "fail") return { status: Number(what), message: "this model is out of order" }
  if (order === "run" && toolResults.length === 0) return run(what)
  if (order === "write" && toolResults.length === 0)
    return { tool: "write", arguments: { filePath: what, content: "by the agent" } }
  if (order === "write" && toolResults.length === 1) return run(`cat ${what}`)
  return { text: [toolResults.at(-1) ?? "Hello"] }
}

describe("OpenCode over ACP", { timeout: TEST_LIMIT_MS }, () => {
  let stage: ReturnType<typeof makeStage>
  let model: ScriptedModel
  let agent: Agent
  const ends: (() => Promise<void>)[] = []
  beforeAll(async () => {
    model = await startScriptedModel(obedient)
    ends.push(() => model.close())
    const options = { command: [opencodeBinary(), "acp"], environment: ENVIRONMENT } as const
    stage = makeStage(options, (end) => ends.push(end))
    writeOpencodeConfig(join(stage.home, ".config/opencode"), scriptedConfig(model.baseUrl))
    agent = await started(stage)
  }, TEST_LIMIT_MS)
  afterAll(async () => {
    for (const end of ends) await end()
  })

  it("[R3.6] writes a file, runs a command, and reports both, and reports a model that fails", async () => {
    const path = join(stage.repo, "made.txt")
    const told = await ask(agent, `write: ${path}`)
    expect(told.result).toEqual({ state: "succeeded" })
    expect(told.text).toContain("by the agent")
    expect(readFileSync(path, "utf8")).toBe("by the agent")
    expect(told.events.filter(({ type }) => type.startsWith("tool."))).toMatchObject([
      { type: "tool.started", tool: "write", input: expect.stringContaining("by the agent") },
      { type: "tool.completed", failed: false },
      { type: "tool.started", tool: "bash", input: expect.stringContaining("cat") },
      { type: "tool.completed", failed: false, output: expect.stringContaining("by the agent") },
    ])
    expect(told.types).toContain("usage")
    expect(told.events).toContainEqual(expect.objectContaining({ type: "file.changed", path }))

    const failed = await ask(agent, "fail: 401")
    expect(failed.result).toMatchObject({ state: "failed" })
    expect(failed.events.at(-1)).toMatchObject({ type: "error", code: "agent.failed" })
  })

  it("[R3.3] is stopped within a second, and goes on", async () => {
    const session = newId.session()
    await ask(agent, "remember me", { session })
    const stop = new AbortController()
    const before = stage.family.running().length
    const running = ask(agent, "run: sleep 1000", { session, signal: stop.signal })
    await until(() => stage.family.running().length > before)
    const beganAtMs = performance.now()
    stop.abort()
    expect((await running).result.state).toBe("stopped")
    expect(performance.now() - beganAtMs).toBeLessThan(1_000)
    await until(() => stage.family.running().length <= before)
    expect((await ask(agent, "again", { session })).result).toEqual({ state: "succeeded" })
    expect(model.turns.at(-1)?.messages).toBeGreaterThan(3)
  })

  // OpenCode stores its conversations in the same way for both protocols, so other tests prove nearly the same.
  furtherCases("OpenCode over ACP in another sandbox", {
    inPart: true,
  })("[R3.5] remembers in another sandbox", async () => {
    const session = newId.session()
    await ask(agent, "remember me", { session })
    await stage.processes.stop()
    const second = await started({ ...stage, agent: stage.another().agent })
    const told = await ask(second, "what was it?", { session })
    expect(told).toMatchObject({ result: { state: "succeeded" }, text: "Hello" })
    expect(model.turns.at(-1)?.messages).toBeGreaterThan(3)
  })
})
