import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { State } from "../state/open.ts"
import { unknownSandbox } from "../state/unknown.ts"
import type { Idle } from "../use/idle.ts"
import type { Leases } from "../use/leases.ts"
import { type Lives, openLives } from "../use/lives.ts"
import { openBootEnds } from "./boot-ends.ts"
import { isBootOver } from "./boot-summary.ts"
import type { Bridges } from "./bridges.ts"
import { type Keepers, openKeepers } from "./keepers.ts"
import type { KeepParts } from "./kept.ts"

export interface KeepingParts
  extends State,
    Omit<KeepParts, "onBootOver" | "onDown" | "onUp" | "clock"> {
  readonly bridges: Bridges
  readonly idle: Idle
  readonly leases: Leases
  readonly wake: (sandbox: SandboxId) => void
}

/** The connections to sandboxes, and what lives in them by their own word. */
export interface Keeping {
  readonly keepers: Keepers
  readonly lives: Lives
}

export const openKeeping = (parts: KeepingParts): Keeping => {
  const { bridges, sharedDirectories, clock, leases, wake } = parts
  const keepers = openKeepers({
    ...parts,
    onBootOver: openBootEnds(parts),
    onDown: wake,
    // Asked at once, not at the next look: a prompt that was stopped while the sandbox was not reached goes on in it.
    onUp: (sandbox) => {
      if (lives.of(sandbox).kind !== "none") void lives.ask(sandbox).then(() => wake(sandbox))
    },
  })
  /**
   * Stops prompts again that ended in the store while their sandbox was not reached. A failure is tried again at the
   * next answer.
   */
  const stopAgain = async (sandbox: SandboxId, prompts: readonly PromptId[]): Promise<void> => {
    for (const prompt of await parts.events.ended(prompts))
      await keepers.get(sandbox)?.stopPrompt(prompt)
  }
  const lives = openLives({
    clock,
    leases,
    ask: async (sandbox, change, signal) =>
      await bridges.activity(
        await sharedDirectoryOf({ keepers, sharedDirectories }, sandbox),
        change,
        signal,
      ),
    onPrompts: (sandbox, prompts) => void stopAgain(sandbox, prompts).catch(() => {}),
  })
  return { keepers, lives }
}

/** The shared directory of a sandbox. Fails where it has none. */
export const sharedDirectoryOf = async (
  { keepers, sharedDirectories }: Pick<Keeping, "keepers"> & Pick<State, "sharedDirectories">,
  sandbox: SandboxId,
) => {
  const shared = keepers.get(sandbox)?.shared ?? (await sharedDirectories.find(sandbox))
  if (shared !== undefined) return shared
  throw unknownSandbox(sandbox)
}

export const isBooting = ({ keepers }: Pick<Keeping, "keepers">, sandbox: SandboxId): boolean => {
  const boot = keepers.get(sandbox)?.boot
  return boot !== undefined && !isBootOver(boot)
}
