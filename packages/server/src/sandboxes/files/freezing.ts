import type { Backend } from "@berth/backends/backend"
import type { CopyProgress } from "@berth/layers/live-copy"
import type { Freezer } from "@berth/layers/while-frozen"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { LeaseSource } from "@berth/protocol/lease"
import { halted } from "../state/halted.ts"
import type { Transients } from "../state/transients.ts"
import type { Leases } from "../use/leases.ts"
import type { FrozenFiles, WorkspaceFiles } from "./files.ts"

export interface FreezingParts {
  readonly backend: Pick<Backend, "inspect" | "pause" | "resume">
  readonly leases: Leases
  readonly files: WorkspaceFiles
  readonly wake: (sandbox: SandboxId) => void
  readonly transients: Transients
  /** Why a sandbox stays halted, if it does. */
  readonly held: (sandbox: SandboxId) => string | undefined
  /** Why a sandbox is halted, if it is, be it for a moment. */
  readonly haltOf: (sandbox: SandboxId) => string | undefined
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
export type Freeze = (wanted: FreezeFiles) => Promise<FrozenFiles>

export const openFreezing = (parts: FreezingParts): Freeze => {
  const { backend, leases, files, transients } = parts

  const isOnlyCopy = (sandbox: SandboxId, copy: symbol): boolean =>
    [...transients.get(sandbox).copies].every((other) => other === copy)

  const endCopy = (sandbox: SandboxId, copy: symbol): void => {
    const before = transients.get(sandbox)
    const copies = new Set([...before.copies].filter((other) => other !== copy))
    const isPausedForCopy = copies.size > 0 && before.isPausedForCopy
    transients.change(sandbox, { copies, isPausedForCopy })
  }

  /** Pauses and resumes a sandbox for a copy. While it stands still, nobody else wakes or pauses it. */
  const freezerOf = (sandbox: SandboxId, copy: symbol): Freezer => ({
    freeze: async () => {
      const { copies } = transients.get(sandbox)
      transients.change(sandbox, { copies: new Set([...copies, copy]) })
      if ((await backend.inspect(sandbox))?.state === "paused") return
      // An engine that does not know that a sandbox is halted cannot pause it.
      const halt = parts.haltOf(sandbox)
      if (halt !== undefined) throw halted(sandbox, halt)
      transients.change(sandbox, { isPausedForCopy: true })
      await backend.pause(sandbox)
    },
    thaw: async () => {
      // A sandbox that was halted meanwhile for its disk use stays paused.
      const isLast = isOnlyCopy(sandbox, copy)
      const { isPausedForCopy } = transients.get(sandbox)
      if (isLast && isPausedForCopy && parts.held(sandbox) === undefined)
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
