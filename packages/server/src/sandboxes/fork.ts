import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { ForkProgress } from "@berth/protocol/sandboxes"
import type { Backend } from "../backends/backend.ts"
import type { Serially } from "../host/serial.ts"
import type { Freezer } from "../layers/while-frozen.ts"
import type { Logger } from "../logging/logger.ts"
import { operation } from "../logging/operation.ts"
import type { WorkspaceFiles } from "./files.ts"
import type { Leases } from "./leases.ts"
import type { Rows } from "./rows.ts"
import { detached, unknownSandbox } from "./unknown.ts"
import type { Workspaces } from "./workspaces.ts"

export interface ForkParts {
  readonly backend: Pick<Backend, "inspect" | "pause" | "resume">
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly leases: Leases
  readonly files: WorkspaceFiles
  readonly log: Logger
  /** One thing at a time for one workspace. */
  readonly serially: Serially
  readonly wake: (sandbox: SandboxId) => void
  /** Those that nobody else is to touch. */
  readonly making: Set<SandboxId>
  /** The sandboxes that stand still for their files to be copied. */
  readonly copying: Set<SandboxId>
  /** Why a sandbox stays halted, if it does. */
  readonly held: (sandbox: SandboxId) => string | undefined
  /** The files of a sandbox that stood still are copied: it may be let go on, or halted, now. */
  readonly onThaw: () => void
}

export interface ForkCall {
  readonly signal: AbortSignal
  /** Told how far it is. */
  readonly onProgress: (progress: ForkProgress) => void
}

/**
 * Makes another workspace like this sandbox's, on a copy of its files. Whoever uses the sandbox goes on with it, after
 * a moment in which it stands still. Returns how long that was.
 */
export const openFork = (parts: ForkParts) => {
  const { backend, rows, workspaces, leases, files, making, copying } = parts

  /** Nobody takes it away meanwhile. */
  const whileKept = async (sandbox: SandboxId, to: Slug, work: () => Promise<number>) => {
    const lease = await leases.acquire({
      sandbox,
      kind: "hold",
      source: "fork",
      subject: to,
      holder: `the fork to ${to}`,
    })
    try {
      return await work()
    } finally {
      await leases.release(lease)
    }
  }

  /** While it stands still, nobody wakes it or puts it to sleep. */
  const freezerOf = (sandbox: SandboxId): Freezer => {
    let isFrozenByUs = false
    return {
      freeze: async () => {
        making.add(sandbox)
        copying.add(sandbox)
        if ((await backend.inspect(sandbox))?.state === "paused") return
        isFrozenByUs = true
        await backend.pause(sandbox)
      },
      thaw: async () => {
        // Halted meanwhile for what it takes of the disk, it stays as it is.
        if (isFrozenByUs && parts.held(sandbox) === undefined) await backend.resume(sandbox)
        making.delete(sandbox)
        copying.delete(sandbox)
        parts.onThaw()
        // A caller that came meanwhile may have found it frozen.
        parts.wake(sandbox)
      },
    }
  }

  const copy = async (sandbox: SandboxId, from: Slug, to: Slug, call: ForkCall) => {
    const state = (await backend.inspect(sandbox, { signal: call.signal }))?.state
    if (state !== "running" && state !== "paused")
      return await files.fork(from, to, { ...call, live: undefined })
    const live = { sandbox, ...freezerOf(sandbox) }
    try {
      return await whileKept(sandbox, to, () => files.fork(from, to, { ...call, live }))
    } finally {
      // A thaw that failed leaves it to whoever looks at it next.
      making.delete(sandbox)
      copying.delete(sandbox)
      parts.wake(sandbox)
    }
  }

  return async (sandbox: SandboxId, to: Slug, call: ForkCall): Promise<number> => {
    const row = await rows.get(sandbox)
    const workspace = row && (await workspaces.get(row.workspace))
    if (row?.isDetached && row.phase === "gone") throw detached(sandbox)
    if (row === undefined || workspace === undefined) throw unknownSandbox(sandbox)
    const from = row.workspace
    const ids = { sandbox, workspace: from, to }
    return await operation(parts.log, "workspace.fork", ids, () =>
      parts.serially(to, async () => {
        if ((await workspaces.get(to)) !== undefined) throw taken(to)
        const frozenMs = await copy(sandbox, from, to, call)
        // Last: there is no workspace without its files.
        if (await workspaces.add({ ...workspace.spec, slug: to }, workspace)) return frozenMs
        // Somebody else has described one of that name meanwhile, whose files these are not.
        await files.remove(to)
        throw taken(to)
      }),
    )
  }
}

const taken = (workspace: Slug): BerthError =>
  new BerthError("workspace.exists", `there is a workspace ${workspace} already`, {
    details: { workspace },
  })
