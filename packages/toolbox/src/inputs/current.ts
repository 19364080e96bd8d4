import { claude } from "./claude.ts"
import { codex } from "./codex.ts"
import type { ToolboxInput } from "./input.ts"
import { node } from "./node.ts"
import { opencode } from "./opencode.ts"
import type { OptionalAgent } from "./optional-agents.ts"
import { pty } from "./pty.ts"
import { ripgrep } from "./ripgrep.ts"
import type { FindInput, InputSource } from "./source.ts"
import { supervisor } from "./supervisor.ts"
import { tini } from "./tini.ts"
import { webTerminal } from "./web-terminal.ts"

/** The entries of every toolbox. */
const COMMON: readonly FindInput[] = [node, tini, ripgrep, pty, supervisor, webTerminal]

/** Agents that have a toolbox of their own. A further agent is a file beside these, and a place here. */
const OPTIONAL = { claude, codex }

/** An agent with a toolbox of its own, and the directory from which its packages are found. */
export interface AgentSource {
  readonly agent: OptionalAgent
  readonly from: string
}

/** All entries that this version of Berth brings into sandboxes: with OpenCode, or with another agent in its place. */
export const currentInputs = async (
  source: InputSource,
  other?: AgentSource,
): Promise<ToolboxInput[]> => {
  const common = await Promise.all(COMMON.map((find) => find(source)))
  if (other === undefined) return [...common, await opencode(source)]
  return [...common, ...(await OPTIONAL[other.agent]({ arch: source.arch, from: other.from }))]
}
