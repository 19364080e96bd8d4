import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ModelReply, ModelTurn } from "@berth/testing/scripted-model"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { ask, ignore, never } from "../testing/ask.ts"
import { MAKING_TOOLS, writeGenerousConfig, writePlugin } from "./testing/generous.ts"
import { makeStage, type Stage } from "./testing/stage.ts"

/** A cold start takes two seconds of CPU; this covers a busy machine. */
const TEST_LIMIT_MS = 90_000

/** Makes the file that the prompt names, with the tool that it names: `make TOOL: FILE`; `read: FILE` reads it. */
const obedient = ({ prompt, toolResults }: ModelTurn): ModelReply => {
  const [, tool = "", file = ""] = /^(?:make )?(\w+): (.*)$/.exec(prompt) ?? []
  if (toolResults.length > 0) return { text: [toolResults.at(-1) ?? ""] }
  if (tool === "read") return { tool, arguments: { filePath: file } }
  return MAKING_TOOLS[tool]?.(file) ?? { text: ["Hello"] }
}

describe("OpenCode with its defaults, in a repo that allows it everything,", {
  timeout: TEST_LIMIT_MS,
}, () => {
  let stage: Stage
  let loose: string
  const ends: (() => Promise<void>)[] = []
  beforeAll(async () => {
    stage = await makeStage({ script: obedient, permissions: "deny" }, (end) => ends.push(end))
    writeGenerousConfig(stage.repo)
    writePlugin(join(stage.home, ".config/opencode"), join(stage.repo, "by-home"))
    writeFileSync(join(stage.repo, "README"), "hello\n")
    loose = join(stage.home, ".config/opencode/agent/loose.md")
    mkdirSync(join(loose, ".."))
    await stage.agent.start(never, ignore)
    await stage.agent.attach(stage.repo, never)
  }, TEST_LIMIT_MS)
  afterAll(async () => {
    for (const end of ends) await end()
  })

  const isThere = (file: string) => existsSync(join(stage.repo, file))

  /** Has OpenCode read its configuration anew. */
  const forgetConfig = async () => {
    const where = `directory=${encodeURIComponent(stage.repo)}`
    await stage.clientOf(stage.processes).post(`/instance/dispose?${where}`)
  }

  it("takes no prompt under deny while the user's own files let one of its agents act unasked", async () => {
    const acts = "---\ndescription: acts\nmode: subagent\npermission:\n  bash: allow\n---\nAct.\n"
    writeFileSync(loose, acts)
    await forgetConfig()
    const asked = ask(stage.agent, "hello")
    await Promise.allSettled([asked])
    rmSync(loose)
    await forgetConfig()
    const told = await asked
    expect(told.result).toEqual({
      state: "failed",
      reason: "OpenCode's configuration lets its agent loose do this without a question: bash (*)",
    })
    expect(told.events).toMatchObject([{ type: "error", code: "agent.unheld" }])
  })

  it.each(Object.keys(MAKING_TOOLS))("makes no file with %s under deny", async (tool) => {
    const file = `denied-${tool}`
    const told = await ask(stage.agent, `make ${tool}: ${join(stage.repo, file)}`)
    expect(told.result, JSON.stringify(told.events)).toEqual({ state: "succeeded" })
    expect(told.events).toContainEqual(
      expect.objectContaining({ type: "permission.answered", allowed: false }),
    )
    expect(isThere(file)).toBe(false)
  })

  it("reads under deny without a question, and starts no program that a configuration names", async () => {
    const told = await ask(stage.agent, `read: ${join(stage.repo, "README")}`)
    expect(told.types).not.toContain("permission.asked")
    expect(told.text).toContain("hello")
    expect(["by-mcp", "by-plugin", "by-home"].filter(isThere)).toEqual([])
  })
})
