import { setTimeout as pause } from "node:timers/promises"
import type { Backend } from "@berth/backends/backend"
import type { Serially } from "@berth/host/serial"
import { BerthError } from "@berth/protocol/errors"
import type { LeaseId, SandboxId, Slug } from "@berth/protocol/ids"
import { type Lease, userOf, usesAmong } from "@berth/protocol/lease"
import type { BootSummary, HoldSandbox } from "@berth/protocol/sandboxes"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Workers } from "../deciding/workers.ts"
import type { WorkspaceFiles } from "../files/files.ts"
import { removeCaches } from "../making/caches/remove.ts"
import type { FailPoint } from "../state/fail-point.ts"
import type { Records } from "../state/records.ts"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { SharedDirectories } from "../state/shared-directories.ts"
import { detached, unknownSandbox, unknownWorkspace } from "../state/unknown.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Leases } from "../use/leases.ts"
import type { SandboxUse } from "./use.ts"

export interface RequestsParts {
  readonly backend: Pick<Backend, "inspect" | "listCaches" | "removeCache">
  readonly rows: Rows
  /** Runs one operation at a time for each workspace. */
  readonly serially: Serially
  readonly workspaces: Workspaces
  readonly records: Records
  readonly leases: Leases
  readonly workers: Workers
  readonly files: WorkspaceFiles
  readonly sharedDirectories: SharedDirectories
  /** The boot of a sandbox, also of one that has ended; null: not known. */
  readonly bootOf: (sandbox: SandboxId) => Promise<BootSummary | null>
  readonly lease: SandboxUse["lease"]
  /** Closes the sessions of a workspace whose files are about to be removed. */
  readonly closeSessions: (workspace: Slug) => Promise<void>
  readonly at: FailPoint
}

/**
 * How long a stop waits for uses to end: a person who has just seen a command end may be faster than the end of its
 * connection.
 */
const ENDING_MS = 1_000
const ENDING_PAUSE_MS = 50

/** The requests that people make about sandboxes. */
export interface Requests {
  /** Keeps a sandbox until it is released, or its time is over. A stopped one is started. */
  hold(sandbox: SandboxId, hold: HoldSandbox, signal: AbortSignal): Promise<Lease>
  release(sandbox: SandboxId, lease: LeaseId): Promise<void>
  /** Gives the files of a quarantined sandbox back to its workspace: the next use starts it again. */
  recover(sandbox: SandboxId): Promise<void>
  /**
   * Stops a sandbox and keeps its files: the next use starts it again. Refused while somebody uses it, unless forced.
   */
  stop(sandbox: SandboxId, options: { force: boolean }): Promise<void>
  /**
   * Removes a sandbox and its workspace; resolves when nothing is left. Refused while somebody uses it, unless forced.
   */
  remove(sandbox: SandboxId, options: { force: boolean }): Promise<void>
  /**
   * Removes a workspace that has no sandbox: one that was described and never used, or an import that a crash cut
   * short.
   */
  removeWorkspace(workspace: Slug): Promise<void>
  /** Removes the workspace of that name, and saves this one in its place. Refused while somebody uses it. */
  replaceWorkspace(spec: WorkspaceSpec): Promise<void>
}

export const openRequests = (parts: RequestsParts): Requests => new PeoplesRequests(parts)

class PeoplesRequests implements Requests {
  readonly #parts: RequestsParts

  constructor(parts: RequestsParts) {
    this.#parts = parts
  }

  async hold(...[asked, { holder, forMs }, signal]: Parameters<Requests["hold"]>): Promise<Lease> {
    const { lease: take, workers, leases } = this.#parts
    const time = forMs !== undefined && { ttlMs: forMs }
    const request = { kind: "hold", source: "person", holder, ...time } as const
    const { sandbox, lease } = await take(asked, request, signal)
    // A paused sandbox is in use now, too.
    workers.wake(sandbox)
    const held = (await leases.of(sandbox)).find(({ id }) => id === lease)
    if (held === undefined) throw unknownSandbox(sandbox)
    return held
  }

  async release(sandbox: SandboxId, lease: LeaseId): Promise<void> {
    const { leases } = this.#parts
    const held = (await leases.of(sandbox)).find(({ id }) => id === lease)
    if (held?.source !== "person")
      throw new BerthError("not_found", `nobody holds ${sandbox} by ${lease}`, {
        details: { sandbox, lease },
      })
    await leases.release(lease)
  }

  async recover(sandbox: SandboxId): Promise<void> {
    const { rows } = this.#parts
    const row = await this.#find(sandbox)
    if (row.phase !== "quarantined") throw notQuarantined(row)
    await this.#restoreWorkspace(row)
    await rows.attach(sandbox)
    const reason = "a person gave its files back to its workspace"
    await rows.beginStop(sandbox, { cause: "ended", reason })
    await this.#settle(sandbox)
  }

  async stop(sandbox: SandboxId, { force }: { force: boolean }): Promise<void> {
    const { phase, workspace, isDetached } = await this.#find(sandbox, force)
    if (isDetached && phase === "gone") throw detached(sandbox)
    // A creation that runs right now ends first, and its caller gets the sandbox.
    if (phase === "creating") await this.#parts.serially(workspace, async () => {})
    await this.#end(sandbox, "a person stopped it", force)
  }

  async remove(sandbox: SandboxId, { force }: { force: boolean }): Promise<void> {
    const { rows, serially } = this.#parts
    const { workspace, phase: before, isDetached } = await this.#find(sandbox, force)
    if (isDetached && before === "gone") throw detached(sandbox)
    // The turn covers the end of the sandbox too, so that nobody who waits for the next one gets it in between.
    await serially(workspace, async () => {
      // The successor may have been made since: then that one is meant.
      const current = (await rows.current(sandbox))?.id ?? sandbox
      const { phase } = await this.#end(current, "a person removed it", force)
      // A quarantined sandbox only claims its workspace, so removing it does not remove the workspace.
      if (phase === "quarantined") return
      if ((await rows.ofWorkspace(workspace)).length === 0) await this.#removeFiles(workspace)
    })
  }

  removeWorkspace(workspace: Slug): Promise<void> {
    const { rows, workspaces, serially } = this.#parts
    return serially(workspace, async () => {
      if ((await workspaces.get(workspace)) === undefined) throw unknownWorkspace(workspace)
      const [sandbox] = await rows.ofWorkspace(workspace)
      if (sandbox !== undefined) throw hasSandbox(sandbox)
      await this.#removeFiles(workspace)
    })
  }

  replaceWorkspace(spec: WorkspaceSpec): Promise<void> {
    const { rows, workspaces, serially } = this.#parts
    return serially(spec.slug, async () => {
      // A concurrent request may have replaced the workspace since.
      if ((await workspaces.put(spec)) === undefined) return
      for (const { id } of await rows.ofWorkspace(spec.slug))
        await this.#end(id, "a person replaced its workspace", false)
      await this.#removeFiles(spec.slug)
      await workspaces.put(spec)
    })
  }

  /** Finds the row of a sandbox. A sandbox that the store does not know is looked at first. */
  async #find(sandbox: SandboxId, force = false): Promise<SandboxRow> {
    const { rows, workers, backend } = this.#parts
    const row = await rows.get(sandbox)
    if (row !== undefined) return row
    await workers.settle(sandbox)
    const now = (await rows.get(sandbox)) ?? (force ? await this.#takeOver(sandbox) : undefined)
    if (now !== undefined) return now
    if ((await backend.inspect(sandbox)) === undefined) throw unknownSandbox(sandbox)
    throw unanswered(sandbox)
  }

  /**
   * Makes an unknown sandbox known as quarantined, by a person's word: it has not told its activity.
   */
  async #takeOver(sandbox: SandboxId): Promise<SandboxRow | undefined> {
    const { rows, backend } = this.#parts
    const observed = await backend.inspect(sandbox)
    if (observed === undefined) return undefined
    const { workspace, configHash } = observed.identity
    const row = { id: sandbox, workspace, configHash, mode: "fresh" as const }
    await rows.insert({ ...row, phase: "quarantined" })
    return await rows.get(sandbox)
  }

  async #end(sandbox: SandboxId, reason: string, force: boolean): Promise<SandboxRow> {
    const row = await this.#find(sandbox, force)
    // After a restart the sandbox may not have told its activity yet.
    if (!force) await this.#parts.workers.settle(sandbox)
    await this.#beginStop(sandbox, reason, force)
    await this.#settle(sandbox)
    return row
  }

  async #beginStop(sandbox: SandboxId, reason: string, force: boolean): Promise<void> {
    const { rows, leases } = this.#parts
    const begin = force ? rows.beginStopRegardless : rows.beginStopUnlessUsed
    const stop = { cause: "person", reason } as const
    for (let waitedMs = 0; ; waitedMs += ENDING_PAUSE_MS) {
      if (await begin(sandbox, stop)) return
      const phase = (await rows.get(sandbox))?.phase
      if (phase === "stopping" || phase === "gone") return
      if (waitedMs >= ENDING_MS) throw inUse(sandbox, usesAmong(await leases.of(sandbox)))
      await pause(ENDING_PAUSE_MS)
    }
  }

  async #settle(sandbox: SandboxId): Promise<void> {
    const { failure } = await this.#parts.workers.settle(sandbox)
    if (failure !== undefined) throw failure
  }

  /**
   * Removes a workspace, its row last: what a crash leaves can be removed again, and boots anew if it is used instead.
   */
  async #removeFiles(workspace: Slug): Promise<void> {
    const { closeSessions, workspaces, files, backend, rows, sharedDirectories, at } = this.#parts
    await closeSessions(workspace)
    await at("removal.closed")
    await workspaces.unbooted(workspace)
    await at("removal.unbooted")
    await files.remove(workspace)
    await at("removal.files")
    await removeCaches(backend, workspace)
    for (const gone of await rows.goneOf(workspace)) await sharedDirectories.remove(gone)
    await at("removal.shared")
    await workspaces.remove(workspace)
  }

  /**
   * Restores the workspace of a quarantined sandbox: a store that lost the sandbox may have lost its workspace, too.
   */
  async #restoreWorkspace({ id: sandbox, workspace }: SandboxRow): Promise<void> {
    const { workspaces, records, bootOf } = this.#parts
    if ((await workspaces.get(workspace)) !== undefined) return
    const record = await records.read(sandbox)
    if (record === undefined) throw nothingKnown(sandbox)
    const boot = await bootOf(sandbox)
    await workspaces.put(record.workspace)
    if (typeof boot?.readyAtMs === "number") await workspaces.booted(workspace)
  }
}

const notQuarantined = ({ id: sandbox, phase }: SandboxRow): BerthError =>
  new BerthError("sandbox.not_quarantined", `${sandbox} is ${phase}, not quarantined`, {
    details: { sandbox, phase },
  })

const hasSandbox = ({ id: sandbox, workspace }: SandboxRow): BerthError =>
  new BerthError("sandbox.in_use", `${workspace} has the sandbox ${sandbox}: remove that one`, {
    details: { workspace, sandbox },
  })

const nothingKnown = (sandbox: SandboxId): BerthError =>
  new BerthError("backend.state_damaged", `it is not known which workspace ${sandbox} was for`, {
    details: { sandbox },
  })

const unanswered = (sandbox: SandboxId): BerthError =>
  new BerthError("sandbox.in_use", `${sandbox} has not told its activity yet`, {
    details: { sandbox },
  })

const inUse = (sandbox: SandboxId, held: readonly Lease[]): BerthError => {
  const users = held.map(userOf)
  return new BerthError("sandbox.in_use", `${sandbox} is used by ${users.join(", ")}`, {
    details: { sandbox, users },
  })
}
