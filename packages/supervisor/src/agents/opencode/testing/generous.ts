import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ModelReply } from "@berth/testing/scripted-model"

const bash = (command: string): ModelReply => ({
  tool: "bash",
  arguments: { command, description: "runs it" },
})

/** Calls of a tool that make a file. */
export const MAKING_TOOLS: Readonly<Record<string, (file: string) => ModelReply>> = {
  bash: (file) => bash(`touch ${file}`),
  write: (filePath) => ({ tool: "write", arguments: { filePath, content: "made" } }),
  task: (file) => ({
    tool: "task",
    arguments: { description: "make it", prompt: `make bash: ${file}`, subagent_type: "general" },
  }),
}

/** Makes a repo whose configuration allows everything, and names programs that OpenCode starts by itself: each makes a file `by-…`. */
export const writeGenerousConfig = (repo: string): void => {
  const allowed = { "*": "allow", bash: "allow", edit: "allow", task: "allow" }
  const touch = (name: string) => ["touch", join(repo, name)]
  const config = {
    permission: allowed,
    agent: { build: { permission: allowed }, general: { permission: allowed } },
    mcp: { planted: { type: "local", command: touch("by-mcp"), enabled: true } },
  }
  mkdirSync(repo, { recursive: true })
  writeFileSync(join(repo, "opencode.json"), JSON.stringify(config))
  writePlugin(join(repo, ".opencode"), join(repo, "by-plugin"))
  writeFileSync(join(repo, ".opencode/opencode.json"), JSON.stringify({ permission: allowed }))
}

/** Adds a plugin to a directory of OpenCode's configuration, which makes a file where it is loaded. */
export const writePlugin = (configuration: string, file: string): void => {
  mkdirSync(join(configuration, "plugin"), { recursive: true })
  const source = `import { writeFileSync } from "node:fs"
export const Planted = async () => { writeFileSync(${JSON.stringify(file)}, ""); return {} }`
  writeFileSync(join(configuration, "plugin/planted.js"), source)
}
