import type { SandboxId } from "@berth/protocol/ids"

/** disk: the sandbox fills the disk. limit: its files take more than its workspace allows. */
export type Cause = "disk" | "limit"

/** The sandboxes that stay halted, with the reason of each cause. */
export interface Halts {
  /** The reason that a person reads first. */
  why(sandbox: SandboxId): string | undefined
  has(sandbox: SandboxId, cause: Cause): boolean
  put(sandbox: SandboxId, cause: Cause, reason: string): void
  /** Returns false if the sandbox was not halted for that cause. */
  drop(sandbox: SandboxId, cause: Cause): boolean
  forget(sandbox: SandboxId): void
  of(cause: Cause): SandboxId[]
  all(): ReadonlySet<SandboxId>
}

export const openHalts = (): Halts => {
  const reasons: Readonly<Record<Cause, Map<SandboxId, string>>> = {
    disk: new Map(),
    limit: new Map(),
  }
  return {
    // The limit comes first: it can be mended in the sandbox itself, while others may be why the disk is full.
    why: (sandbox) => reasons.limit.get(sandbox) ?? reasons.disk.get(sandbox),
    has: (sandbox, cause) => reasons[cause].has(sandbox),
    put: (sandbox, cause, reason) => void reasons[cause].set(sandbox, reason),
    drop: (sandbox, cause) => reasons[cause].delete(sandbox),
    forget: (sandbox) => {
      reasons.disk.delete(sandbox)
      reasons.limit.delete(sandbox)
    },
    of: (cause) => [...reasons[cause].keys()],
    all: () => new Set([...reasons.disk.keys(), ...reasons.limit.keys()]),
  }
}
