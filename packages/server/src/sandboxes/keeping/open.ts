import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { State } from "../state/open.ts"
import { unknownSandbox } from "../state/unknown.ts"
import { type Activities, openActivities } from "../use/activities.ts"
import type { Idle } from "../use/idle.ts"
import type { Leases } from "../use/leases.ts"
import { openBootEnds } from "./boot-ends.ts"
import { isBootOver } from "./boot-summary.ts"
import type { Bridges } from "./bridges.ts"
import type { ConnectionParts } from "./connection.ts"
import { type Connections, openConnections } from "./connections.ts"

export interface KeepingParts
  extends State,
    Omit<ConnectionParts, "onBootOver" | "onDown" | "onUp" | "clock"> {
  readonly bridges: Bridges
  readonly idle: Idle
  readonly leases: Leases
  readonly wake: (sandbox: SandboxId) => void
}

/** The connections to sandboxes, and the activities that these tell. */
export interface Keeping {
  readonly connections: Connections
  readonly activities: Activities
}

export const openKeeping = (parts: KeepingParts): Keeping => {
  const { bridges, sharedDirectories, clock, leases, wake } = parts
  const connections = openConnections({
    ...parts,
    onBootOver: openBootEnds(parts),
    onDown: wake,
    // Queried at once, not at the next look: a prompt that was stopped while the sandbox was not reached goes on in it.
    onUp: (sandbox) => {
      if (activities.of(sandbox).kind !== "none")
        void activities.query(sandbox).then(() => wake(sandbox))
    },
  })
  /**
   * Stops prompts again that ended in the store while their sandbox was not reached. A failure is tried again at the
   * next answer.
   */
  const stopAgain = async (sandbox: SandboxId, prompts: readonly PromptId[]): Promise<void> => {
    for (const prompt of await parts.events.ended(prompts))
      await connections.get(sandbox)?.stopPrompt(prompt)
  }
  const activities = openActivities({
    clock,
    leases,
    query: async (sandbox, change, signal) =>
      await bridges.activity(
        await sharedDirectoryOf({ connections, sharedDirectories }, sandbox),
        change,
        signal,
      ),
    onPrompts: (sandbox, prompts) => void stopAgain(sandbox, prompts).catch(() => {}),
  })
  return { connections, activities }
}

/** The shared directory of a sandbox. Fails where it has none. */
export const sharedDirectoryOf = async (
  {
    connections,
    sharedDirectories,
  }: Pick<Keeping, "connections"> & Pick<State, "sharedDirectories">,
  sandbox: SandboxId,
) => {
  const shared = connections.get(sandbox)?.shared ?? (await sharedDirectories.find(sandbox))
  if (shared !== undefined) return shared
  throw unknownSandbox(sandbox)
}

export const isBooting = (
  { connections }: Pick<Keeping, "connections">,
  sandbox: SandboxId,
): boolean => {
  const boot = connections.get(sandbox)?.boot
  return boot !== undefined && !isBootOver(boot)
}
