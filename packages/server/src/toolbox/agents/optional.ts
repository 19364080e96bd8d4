/** Agents that are not in every toolbox: each takes some hundred megabytes. */
export const OPTIONAL_AGENTS = ["claude", "codex"] as const
export type OptionalAgent = (typeof OPTIONAL_AGENTS)[number]

/** The agent of a workspace, if it has a toolbox of its own. */
export const optionalAgent = (kind: string): OptionalAgent | undefined =>
  OPTIONAL_AGENTS.find((agent) => agent === kind)
