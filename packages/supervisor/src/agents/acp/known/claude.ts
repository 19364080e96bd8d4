import { join } from "node:path"
import type { AgentSpec } from "@berth/protocol/workspace"
import { HELD_INSTRUCTION, isHeld } from "../../held.ts"
import type { AcpOptions } from "../acp.ts"

const MAIN = "agents/claude/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"

/**
 * Tells Claude Code that it is in a sandbox, since it refuses some modes to root elsewhere. Turns off updates and
 * reports.
 */
const IN_A_SANDBOX = {
  IS_SANDBOX: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
}

/**
 * The settings that hold Claude. No settings file counts, neither the repo's nor the user's, since such files allow
 * calls, run hooks and start servers. Commands are asked for even if Claude thinks that they only read.
 */
const HELD = {
  claudeCode: {
    options: {
      settingSources: [],
      strictMcpConfig: true,
      allowDangerouslySkipPermissions: false,
      settings: { permissions: { ask: ["Bash"] }, disableAllHooks: true },
    },
  },
  systemPrompt: { append: HELD_INSTRUCTION },
}

/** Claude Code, run through the ACP adapter of the toolbox. */
export const claudeAgent = (
  { kind, model, permissions }: Extract<AgentSpec, { kind: "claude" }>,
  toolbox: string,
): AcpOptions => ({
  name: kind,
  title: "Claude",
  command: [join(toolbox, "bin/node"), join(toolbox, MAIN)],
  permissions,
  environment: (own) => ({
    ...IN_A_SANDBOX,
    ...own,
    ...(model !== undefined && { ANTHROPIC_MODEL: model }),
  }),
  ...(isHeld(permissions) && { mode: "default", meta: HELD }),
  login: "give it a key with --key ANTHROPIC_API_KEY or --key CLAUDE_CODE_OAUTH_TOKEN",
})
