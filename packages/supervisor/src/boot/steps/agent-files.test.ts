import { lstatSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { agentFiles } from "./agent-files.ts"
import { Stage, TEST_USER } from "./testing/stage.ts"

const FILES = [
  { from: "agents/x/modules", to: ".config/x/modules" },
  { from: "agents/x/x.json", to: ".config/x/x.json" },
]

let stage: Stage
beforeEach(async () => {
  stage = await Stage.open()
  mkdirSync(stage.path("toolbox/agents/x/modules"), { recursive: true })
  writeFileSync(stage.path("toolbox/agents/x/modules/index.js"), "1")
  writeFileSync(stage.path("toolbox/agents/x/x.json"), "{}")
})
afterEach(() => stage.close())

const boot = async (files: Parameters<Stage["context"]>[0] = { files: FILES }) => {
  const trace = await stage.boot([agentFiles([])], stage.context(files)).ended
  return { trace, step: trace.steps[0] }
}

describe("the step of agent files", () => {
  it("[R2.8] reports the files that it linked or found in place, and how long it took", async () => {
    const { step, trace } = await boot()
    expect(step?.detail).toMatch(/^2 linked in [\d.]+ ms$/)
    expect(step?.facts).toMatchObject({
      linked: FILES.map(({ to }) => to),
      copied: [],
      present: [],
      kept: [],
      replaced: [],
      cleaned: [],
      tookMs: expect.any(Number),
    })
    expect(trace.warnings).toEqual([])
    const link = lstatSync(stage.path("home/.config/x/modules"))
    expect(link.uid).toBe(TEST_USER?.uid ?? process.getuid?.())
    expect((await boot()).step?.detail).toMatch(/^2 present in/)
  })

  it("keeps a file of the user's own, and warns", async () => {
    stage.put("home/.config/x/x.json", "mine")
    const { step, trace } = await boot()
    expect(step?.detail).toMatch(/^1 linked, 1 kept in/)
    expect(step?.facts).toMatchObject({ kept: [".config/x/x.json"] })
    expect(trace.warnings.map(({ message }) => message)).toEqual([
      "the agent's .config/x/x.json was not put in place: it is the user's own, and was left as it is",
    ])
    expect(readFileSync(stage.path("home/.config/x/x.json"), "utf8")).toBe("mine")
  })

  it("[R2.6] fails the boot where the toolbox lacks a file, and names the file", async () => {
    const files = [...FILES, { from: "agents/x/gone", to: ".config/x/gone" }]
    const { trace, step } = await boot({ files })
    expect(trace.outcome).toBe("failed")
    expect(step?.error).toMatchObject({
      code: "agent_files.incomplete",
      message: "the toolbox has no agents/x/gone: it is missing",
    })
    expect(() => lstatSync(join(stage.path("home"), ".config"))).toThrow("ENOENT")
  })

  it("has nothing to do for an agent without files", async () => {
    expect((await boot({ files: [] })).step).toMatchObject({
      state: "skipped",
      detail: "none needs none",
    })
  })
})
