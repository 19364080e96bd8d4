import { readFileSync } from "node:fs"
import { newId } from "@berth/protocol/ids"
import { sampled } from "@berth/testing/sampled"
import { startScriptedModel } from "@berth/testing/scripted-model"
import { describe, expect, it, onTestFinished } from "vitest"
import { until } from "../../processes/testing/until.ts"
import { ask } from "../testing/ask.ts"
import { makeStage, started } from "./testing/stage.ts"
import { makeVendorToolbox, VENDORS, type VendorName } from "./testing/vendors.ts"

/** A cold start takes seconds of CPU; this covers a busy machine. */
const TEST_LIMIT_MS = 90_000

const NAMES = Object.keys(VENDORS) as VendorName[]

const makeVendor = async (name: VendorName) => {
  const { known, keys, environment, run } = VENDORS[name]
  const model = await startScriptedModel(({ prompt, toolResults }) => {
    if (prompt.includes("Be refused.")) return { status: 400, message: "no such model" }
    const [, command] = /run: (.*)/.exec(prompt) ?? []
    if (command !== undefined && toolResults.length === 0) return run(command)
    return { text: [toolResults.at(-1) ?? "Hello"] }
  })
  onTestFinished(() => model.close())
  const stage = makeStage({ known, keys: keys(), environment: environment(model.port) })
  makeVendorToolbox(stage.toolbox)
  return { ...stage, model }
}

describe.each(sampled("vendors over ACP", NAMES, 1))("%s over ACP", (name) => {
  it("fails with its model's own words when the model refuses, and goes on", {
    timeout: TEST_LIMIT_MS,
  }, async () => {
    const agent = await started(await makeVendor(name))
    const refused = await ask(agent, "Be refused.", { session: newId.session() })
    expect(refused.result).toMatchObject({
      state: "failed",
      reason: expect.stringContaining("no such model"),
    })
    expect(refused.types).toContain("error")
    const next = await ask(agent, "Hello.", { session: newId.session() })
    expect(next.result).toEqual({ state: "succeeded" })
  })

  it("[R3.3] [R3.5] is stopped within a second, ends the processes that it ran, goes on, and remembers in another sandbox", {
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
