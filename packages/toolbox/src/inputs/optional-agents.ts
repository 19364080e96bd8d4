/** Agents that are not in every toolbox: each takes some hundred megabytes. */
export const OPTIONAL_AGENTS = ["claude", "codex"] as const
export type OptionalAgent = (typeof OPTIONAL_AGENTS)[number]

/** The agent of a workspace, if it has a toolbox of its own. */
export const optionalAgent = (kind: string): OptionalAgent | undefined =>
  OPTIONAL_AGENTS.find((agent) => agent === kind)

/** The adapter over which each agent speaks the Agent Client Protocol; it depends on the agent itself. */
export const ADAPTERS: Readonly<Record<OptionalAgent, string>> = {
  claude: "@agentclientprotocol/claude-agent-acp",
  codex: "@agentclientprotocol/codex-acp",
}
