import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { ForkProgress } from "@berth/protocol/sandboxes"
import type { Backend } from "../backends/backend.ts"
import type { Serially } from "../host/serial.ts"
import type { Freezer } from "../layers/while-frozen.ts"
import type { Logger } from "../logging/logger.ts"
import { operation } from "../logging/operation.ts"
import type { FailPoint } from "./fail-point.ts"
import type { WorkspaceFiles } from "./files.ts"
import type { Leases } from "./leases.ts"
import type { Rows } from "./rows.ts"
import { detached, unknownSandbox } from "./unknown.ts"
import { type Workspace, type Workspaces, workspaceExists } from "./workspaces.ts"

export interface ForkParts {
  readonly backend: Pick<Backend, "inspect" | "pause" | "resume">
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly leases: Leases
  readonly files: WorkspaceFiles
  readonly log: Logger
  readonly at: FailPoint
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
 * a moment in which it stands still. A fork returns how long that was.
 */
export const openFork = (parts: ForkParts) => {
  const { backend, rows, workspaces, leases, files, making, copying, at } = parts
  const underWay = new Set<Slug>()

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

  /** The files first: as long as there are some, their name is taken. */
  const undo = async (to: Slug): Promise<void> => {
    await files.remove(to)
    await workspaces.remove(to)
  }

  /** The row first, so that no files are there of which it is not known whose they are; nobody sees it before it is complete. */
  const make = async (to: Slug, { spec, isBooted }: Workspace, work: () => Promise<number>) => {
    if (!(await workspaces.reserve({ ...spec, slug: to }, { isBooted }))) throw workspaceExists(to)
    try {
      await at("fork.reserved")
      const frozenMs = await work()
      await at("fork.copied")
      await workspaces.complete(to)
      return frozenMs
    } catch (thrown) {
      await undo(to).catch((err: unknown) =>
        parts.log.warn({ op: "workspace.fork", to, err }, UNDONE_LATER),
      )
      throw thrown
    }
  }

  const fork = async (sandbox: SandboxId, to: Slug, call: ForkCall): Promise<number> => {
    const row = await rows.get(sandbox)
    const workspace = row && (await workspaces.get(row.workspace))
    if (row?.isDetached && row.phase === "gone") throw detached(sandbox)
    if (row === undefined || workspace === undefined) throw unknownSandbox(sandbox)
    const from = row.workspace
    files.assertForkable(from)
    const ids = { sandbox, workspace: from, to }
    return await operation(parts.log, "workspace.fork", ids, () =>
      parts.serially(to, async () => {
        underWay.add(to)
        try {
          return await make(to, workspace, () => copy(sandbox, from, to, call))
        } finally {
          underWay.delete(to)
        }
      }),
    )
  }

  /** Removes what forks left that a crash cut short, or that failed and could not be undone. */
  const removeUnfinished = async (): Promise<void> => {
    for (const to of await workspaces.reserved()) {
      if (underWay.has(to)) continue
      await parts.serially(to, () => undo(to))
      parts.log.warn(
        { op: "workspace.fork", to },
        "a fork was cut short; what was made of it is removed",
      )
    }
  }

  return { fork, removeUnfinished }
}

const UNDONE_LATER = "what a fork left could not be removed; it is tried again in a minute"
