import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { LeaseSource } from "@berth/protocol/lease"
import type { Backend } from "../../backends/backend.ts"
import type { CopyProgress } from "../../layers/live-copy.ts"
import type { Freezer } from "../../layers/while-frozen.ts"
import type { Leases } from "../use/leases.ts"
import type { FrozenFiles, WorkspaceFiles } from "./files.ts"

export interface FreezingParts {
  readonly backend: Pick<Backend, "inspect" | "pause" | "resume">
  readonly leases: Leases
  readonly files: WorkspaceFiles
  readonly wake: (sandbox: SandboxId) => void
  /** The sandboxes that nobody else is to touch. */
  readonly making: Set<SandboxId>
  /** The sandboxes that stand still for their files to be copied. */
  readonly copying: Set<SandboxId>
  /** Why a sandbox stays halted, if it does. */
  readonly held: (sandbox: SandboxId) => string | undefined
  /** Called when the files of a sandbox that stood still are copied: it may now be resumed, or halted. */
  readonly onThaw: () => void
}

export interface FreezeFiles {
  readonly workspace: Slug
  /** The workspace's latest sandbox, which may run or be gone. Undefined: it has none. */
  readonly sandbox: SandboxId | undefined
  /** The lease that keeps the sandbox until its files are copied. */
  readonly lease: {
    readonly source: LeaseSource
    readonly subject: string
    readonly holder: string
  }
  readonly signal: AbortSignal
  readonly onProgress: (progress: CopyProgress) => void
}

/**
 * Freezes the files of a workspace as they are at one moment. The users of its sandbox go on with it, after a moment in
 * which it stands still.
 */
export const openFreezing = (parts: FreezingParts) => {
  const { backend, leases, files, making, copying } = parts

  /** The copies for which each sandbox stands still: it goes on when the last of them is done. */
  const copiesOf = new Map<SandboxId, Set<symbol>>()
  /** Sandboxes that a copy has paused. */
  const paused = new Set<SandboxId>()

  const isOnlyCopy = (sandbox: SandboxId, copy: symbol): boolean =>
    [...(copiesOf.get(sandbox) ?? [])].every((other) => other === copy)

  const endCopy = (sandbox: SandboxId, copy: symbol): void => {
    copiesOf.get(sandbox)?.delete(copy)
    if (!isOnlyCopy(sandbox, copy)) return
    copiesOf.delete(sandbox)
    paused.delete(sandbox)
    making.delete(sandbox)
    copying.delete(sandbox)
  }

  /** Pauses and resumes a sandbox for a copy. While it stands still, nobody else wakes or pauses it. */
  const freezerOf = (sandbox: SandboxId, copy: symbol): Freezer => ({
    freeze: async () => {
      const copies = copiesOf.get(sandbox) ?? new Set()
      copiesOf.set(sandbox, copies.add(copy))
      making.add(sandbox)
      copying.add(sandbox)
      if ((await backend.inspect(sandbox))?.state === "paused") return
      paused.add(sandbox)
      await backend.pause(sandbox)
    },
    thaw: async () => {
      // A sandbox that was halted meanwhile for its disk use stays paused.
      const isLast = isOnlyCopy(sandbox, copy)
      if (isLast && paused.has(sandbox) && parts.held(sandbox) === undefined)
        await backend.resume(sandbox)
      endCopy(sandbox, copy)
      if (!isLast) return
      parts.onThaw()
      // A caller that came meanwhile may have found the sandbox frozen.
      parts.wake(sandbox)
    },
  })

  const freezeLive = async (sandbox: SandboxId, wanted: FreezeFiles): Promise<FrozenFiles> => {
    const { workspace, lease, signal, onProgress } = wanted
    // The lease keeps the sandbox from being stopped meanwhile.
    const held = await leases.acquire({ sandbox, kind: "hold", ...lease })
    const copy = Symbol(lease.holder)
    try {
      const live = { sandbox, ...freezerOf(sandbox, copy) }
      return await files.freeze(workspace, { reason: lease.holder, live, signal, onProgress })
    } finally {
      await leases.release(held)
      // A sandbox whose thaw failed is left to its worker.
      endCopy(sandbox, copy)
      parts.wake(sandbox)
    }
  }

  return async (wanted: FreezeFiles): Promise<FrozenFiles> => {
    const { workspace, sandbox, lease, signal, onProgress } = wanted
    const state = sandbox && (await backend.inspect(sandbox, { signal }))?.state
    if (sandbox !== undefined && (state === "running" || state === "paused"))
      return await freezeLive(sandbox, wanted)
    return await files.freeze(workspace, {
      reason: lease.holder,
      live: undefined,
      signal,
      onProgress,
    })
  }
}
