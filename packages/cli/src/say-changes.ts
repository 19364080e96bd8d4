import type { AgentSpec, WorkspaceSpec, WorkspaceSpecInput } from "@berth/protocol/workspace"

/**
 * The parts of a workspace that flags change, by name, in words for people. Variables are named without their values.
 */
export type Changes = Readonly<Record<string, string>>

/** Compares a known workspace with its description by flags. */
export const changesOf = (
  known: WorkspaceSpec,
  described: Omit<WorkspaceSpecInput, "slug">,
): Changes => {
  const changed: Record<string, string> = {}
  const { agent, system, network, hostPorts, limits, environment } = described
  if (agent !== undefined && isOther(agent, known.agent)) changed.agent = sayAgent(agent)
  if (system?.kind === "image" && isOther(system, known.system)) changed.image = system.reference
  if (network !== undefined && isOther(network.kind, known.network.kind))
    changed.network = network.kind
  if (hostPorts !== undefined && isOther(hostPorts, known.hostPorts))
    changed["host ports"] = hostPorts.join(", ")
  for (const [name, value] of Object.entries(limits ?? {}))
    if (isOther(value, Object.entries(known.limits).find(([each]) => each === name)?.[1]))
      changed[name] = String(value)
  const names = Object.keys(environment ?? {}).filter(
    (name) => environment?.[name] !== known.environment[name],
  )
  if (names.length > 0) changed.env = names.join(", ")
  return changed
}

/** A line for each change. */
export const sayChanges = (changes: Changes): string[] =>
  Object.entries(changes).map(([name, value]) => `${name}: ${value} (set for this workspace)`)

const sayAgent = (agent: NonNullable<WorkspaceSpecInput["agent"]>): string => {
  const model = "model" in agent && agent.model !== undefined ? ` with ${agent.model}` : ""
  const isHeld = "permissions" in agent && (agent.permissions ?? "allow") !== "allow"
  const held = isHeld ? `, permissions ${agent.permissions}` : ""
  const keys =
    agent.keys === undefined || agent.keys.length === 0 ? "" : `, keys ${agent.keys.join(" ")}`
  return `${agent.kind satisfies AgentSpec["kind"]}${model}${held}${keys}`
}

/** Whether two values differ. Both come from the protocol's schemas, with their members in one order. */
const isOther = (one: unknown, other: unknown): boolean =>
  JSON.stringify(one) !== JSON.stringify(other)
