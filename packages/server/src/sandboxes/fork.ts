import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { Backend } from "../backends/backend.ts"
import type { Serially } from "../host/serial.ts"
import type { Logger } from "../logging/logger.ts"
import { operation } from "../logging/operation.ts"
import type { WorkspaceFiles } from "./files.ts"
import type { Leases } from "./leases.ts"
import type { Rows } from "./rows.ts"
import { unknownSandbox } from "./unknown.ts"
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
}

/**
 * Makes another workspace like this sandbox's, on a copy of its files. Whoever uses the sandbox goes on with it, after
 * a moment in which it stands still.
 */
export const openFork = (parts: ForkParts) => {
  const { backend, rows, workspaces, leases, files, making } = parts

  /** Nobody takes it away meanwhile, and nobody wakes it or puts it to sleep. */
  const whileKept = async (sandbox: SandboxId, to: Slug, work: () => Promise<void>) => {
    const request = { sandbox, kind: "hold" as const, holder: `the fork to ${to}` }
    const lease = await leases.acquire({ ...request, isConnection: true })
    making.add(sandbox)
    try {
      await work()
    } finally {
      making.delete(sandbox)
      await leases.release(lease)
      // Whoever came meanwhile may have found it frozen.
      parts.wake(sandbox)
    }
  }

  const copyLive = async (sandbox: SandboxId, from: Slug, to: Slug, signal: AbortSignal) => {
    const isFrozen = (await backend.inspect(sandbox, { signal }))?.state === "paused"
    const freezer = isFrozen
      ? { freeze: async () => {}, thaw: async () => {} }
      : { freeze: () => backend.pause(sandbox), thaw: () => backend.resume(sandbox) }
    await files.fork(from, to, { sandbox, ...freezer }, signal)
  }

  const copy = async (sandbox: SandboxId, from: Slug, to: Slug, signal: AbortSignal) => {
    const state = (await backend.inspect(sandbox, { signal }))?.state
    if (state === "running" || state === "paused")
      await whileKept(sandbox, to, () => copyLive(sandbox, from, to, signal))
    else await files.fork(from, to, undefined, signal)
  }

  return async (sandbox: SandboxId, to: Slug, signal: AbortSignal): Promise<void> => {
    const row = await rows.get(sandbox)
    const workspace = row && (await workspaces.get(row.workspace))
    if (row === undefined || workspace === undefined) throw unknownSandbox(sandbox)
    const from = row.workspace
    const ids = { sandbox, workspace: from, to }
    await operation(parts.log, "workspace.fork", ids, () =>
      parts.serially(to, async () => {
        if ((await workspaces.get(to)) !== undefined) throw taken(to)
        await copy(sandbox, from, to, signal)
        // Last: there is no workspace without its files.
        await workspaces.add({ ...workspace.spec, slug: to }, workspace)
      }),
    )
  }
}

const taken = (workspace: Slug): BerthError =>
  new BerthError("workspace.exists", `there is a workspace ${workspace} already`, {
    details: { workspace },
  })
