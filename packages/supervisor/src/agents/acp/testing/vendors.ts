import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Permissions } from "@berth/protocol/workspace"
import type { ModelReply } from "@berth/testing/scripted-model"
import type { AcpOptions } from "../acp.ts"
import { claudeAgent } from "../known/claude.ts"
import { codexAgent } from "../known/codex.ts"

const KEY = "sk-scripted-0123456789"

const MODULES = join(dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "..")
const GATE = fileURLToPath(new URL("../known/codex-gate.ts", import.meta.url))

/** Makes a toolbox of links, with just what the vendors' agents need. */
export const makeVendorToolbox = (toolbox: string): void => {
  for (const each of ["bin", "supervisor", "agents/claude", "agents/codex"])
    mkdirSync(join(toolbox, each), { recursive: true })
  symlinkSync(process.execPath, join(toolbox, "bin/node"))
  for (const name of ["claude", "codex"])
    symlinkSync(MODULES, join(toolbox, "agents", name, "node_modules"))
  const gate = `#!/bin/sh\nexec ${process.execPath} ${GATE} "$@"\n`
  writeFileSync(join(toolbox, "supervisor/codex-gate.cjs"), gate, { mode: 0o755 })
}

export interface Vendor {
  known(permissions: Permissions, toolbox: string): AcpOptions
  keys(): Readonly<Record<string, string>>
  /** Variables that point the agent to a model on loopback. */
  environment(port: number): Readonly<Record<string, string>>
  /** The model's reply that makes the agent run a command. */
  run(command: string): ModelReply
  /** The model's reply that makes the agent write a file. */
  write(path: string): ModelReply
}

export type VendorName = "claude" | "codex"

export const VENDORS: Readonly<Record<VendorName, Vendor>> = {
  claude: {
    known: (permissions, toolbox) =>
      claudeAgent({ kind: "claude", keys: [], permissions }, toolbox),
    keys: () => ({ ANTHROPIC_API_KEY: KEY }),
    environment: (port) => ({ ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}` }),
    run: (command) => ({ tool: "Bash", arguments: { command, description: "runs it" } }),
    write: (file_path) => ({ tool: "Write", arguments: { file_path, content: "made" } }),
  },
  codex: {
    known: (permissions, toolbox) =>
      codexAgent({ kind: "codex", keys: [], permissions, model: "scripted-1" }, toolbox),
    keys: () => ({ OPENAI_API_KEY: KEY }),
    environment: (port) => ({ OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1` }),
    run: (cmd) => ({ tool: "exec_command", arguments: { cmd } }),
    write: (path) => ({
      tool: "exec_command",
      arguments: {
        cmd: `apply_patch <<'E'\n*** Begin Patch\n*** Add File: ${path}\n+made\n*** End Patch\nE`,
      },
    }),
  },
}
