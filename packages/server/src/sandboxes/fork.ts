import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { Backend } from "../backends/backend.ts"
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
  /** Those that nobody else is to touch. */
  readonly making: Set<SandboxId>
}

/**
 * Makes another workspace like this sandbox's, on a copy of its files. Whoever uses the sandbox goes on with it, after
 * a moment in which it stands still.
 */
export const openFork = (parts: ForkParts) => {
  const { backend, rows, workspaces, leases, files, making } = parts

  /** Its leases keep it; nobody wakes it meanwhile. */
  const whileKept = async (sandbox: SandboxId, to: Slug, work: () => Promise<void>) => {
    const lease = await leases.acquire({ sandbox, kind: "hold", holder: `the fork to ${to}` })
    making.add(sandbox)
    try {
      await work()
    } finally {
      making.delete(sandbox)
      await leases.release(lease)
    }
  }

  const copy = async (sandbox: SandboxId, from: Slug, to: Slug, signal: AbortSignal) => {
    const state = (await backend.inspect(sandbox, { signal }))?.state
    if (state !== "running" && state !== "paused")
      return await files.fork(from, to, undefined, signal)
    const freezer =
      state === "paused"
        ? { freeze: async () => {}, thaw: async () => {} }
        : { freeze: () => backend.pause(sandbox), thaw: () => backend.resume(sandbox) }
    await whileKept(sandbox, to, () => files.fork(from, to, { sandbox, ...freezer }, signal))
  }

  return async (sandbox: SandboxId, to: Slug, signal: AbortSignal): Promise<void> => {
    const row = await rows.get(sandbox)
    const workspace = row && (await workspaces.get(row.workspace))
    if (row === undefined || workspace === undefined) throw unknownSandbox(sandbox)
    const from = row.workspace
    await operation(parts.log, "workspace.fork", { sandbox, workspace: from, to }, async () => {
      if (!(await workspaces.add({ ...workspace.spec, slug: to }, workspace))) throw taken(to)
      try {
        await copy(sandbox, from, to, signal)
      } catch (thrown) {
        await workspaces.remove(to)
        await files.remove(to)
        throw thrown
      }
    })
  }
}

const taken = (workspace: Slug): BerthError =>
  new BerthError("workspace.exists", `there is a workspace ${workspace} already`, {
    details: { workspace },
  })
