import type { BootMode } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, type Slug } from "@berth/protocol/ids"
import { keepsAmong, type Lease, userOf, usesAmong } from "@berth/protocol/lease"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Serially } from "../host/serial.ts"
import type { Leases } from "./leases.ts"
import { isCurrentPhase, type Rows, type SandboxRow } from "./rows.ts"
import { unknownWorkspace } from "./unknown.ts"
import type { Wanted, Wants } from "./wanted.ts"
import type { Workspaces } from "./workspaces.ts"

/** So many boots of one config that failed in a row are enough, until somebody asks for another. */
export const MAX_FAILED_BOOTS = 3

/** So long the use of a stale sandbox is waited for: whoever asked is then told whose it is, and may ask again. */
export const MAX_DRAIN_WAIT_MS = 20_000

/** Then it is looked again whether there is still anything to wait for: what is stale may become right again. */
const LOOK_AGAIN_MS = 2_000

export interface EnsureParts {
  readonly rows: Rows
  readonly leases: Leases
  readonly workspaces: Workspaces
  readonly wants: Wants
  /** One thing at a time for one workspace. */
  readonly serially: Serially
  readonly isBooting: (sandbox: SandboxId) => boolean
  readonly hasFailed: (sandbox: SandboxId) => boolean
  /** Rejects where there is no room. */
  readonly admit: () => Promise<void>
  /** Makes the one that this row is of. */
  readonly make: (row: NewRow, signal: AbortSignal) => Promise<void>
  /** A person asks for the one that takes the sandbox's place: those whom it is only kept for give way. */
  readonly askSuccessor: (sandbox: SandboxId) => void
  /** Has the sandbox looked at. */
  readonly wake: (sandbox: SandboxId) => void
  /** The same, and resolves when that is done: one that is dead is not current any more. */
  readonly settle: (sandbox: SandboxId) => Promise<unknown>
  /** Why it is not gone yet, where something failed last; undefined: nothing did. */
  readonly whyNotGone: (sandbox: SandboxId) => string | undefined
  /** Resolves when the store has it as gone. */
  readonly gone: (sandbox: SandboxId, signal: AbortSignal) => Promise<void>
}

export interface NewRow {
  readonly sandbox: SandboxId
  readonly spec: WorkspaceSpec
  readonly wanted: Wanted
  readonly mode: BootMode
}

export interface EnsureOptions {
  /** How files boot that have not booted yet. */
  readonly mode: BootMode
  /** By a person: it is tried though the last boots failed. */
  readonly isRequested: boolean
  /** Boots again where the last boot failed and its sandbox is kept. Default: that is refused. */
  readonly retry?: boolean
  /** How long others are waited for who use a stale one. */
  readonly waitMs?: number
}

export interface Ensured {
  readonly sandbox: SandboxId
  readonly made: boolean
}

/**
 * The current sandbox of a workspace, made if there is none. One that is stale is replaced, as soon as nobody
 * uses it: until then whoever wants the new one waits, for so long.
 */
export const openEnsure = (parts: EnsureParts) => {
  const { rows, leases, workspaces, wants, serially } = parts
  /** Those who wait: when anybody finds what they wanted, they may find it as well. */
  const waiting = new Map<Slug, AbortController>()
  const found = (slug: Slug): void => {
    waiting.get(slug)?.abort()
    waiting.delete(slug)
  }

  const undrain = (sandbox: SandboxId): Promise<boolean> =>
    rows.move(sandbox, ["draining"], parts.isBooting(sandbox) ? "booting" : "ready")

  /** What there is now, or whom to wait for. */
  const step = async (
    slug: Slug,
    { mode, isRequested, retry = false }: EnsureOptions,
    signal: AbortSignal,
  ): Promise<Ensured | { readonly waitFor: SandboxRow }> => {
    const workspace = await workspaces.get(slug)
    if (workspace === undefined) throw unknownWorkspace(slug)
    const { spec, isBooted, failed } = workspace
    const wanted = await wants.of(spec, signal)
    const all = await rows.ofWorkspace(slug)
    const there = all.find(isCurrent) ?? all[0]
    if (there !== undefined) {
      const isSame = there.configHash === wanted.hash
      const isFailed = there.phase === "failed"
      if (isSame && isFailed && !retry) throw bootFailed(there, failed?.why)
      const isRight = isSame && !isFailed && !parts.hasFailed(there.id)
      // One that was to be replaced is wanted again.
      if (isRight && (isCurrent(there) || (await undrain(there.id))))
        return { sandbox: there.id, made: false }
      if (isSame && (isFailed || isCurrent(there))) {
        // A lease that yields gives way to a request.
        const begin = isRequested ? rows.beginStopUnlessUsed : rows.beginStop
        await begin(there.id, { cause: "stale", reason: "its boot had failed" })
      }
      if (!isSame && isRequested) parts.askSuccessor(there.id)
      parts.wake(there.id)
      return { waitFor: there }
    }
    if (!isRequested && failed?.hash === wanted.hash && failed.boots >= MAX_FAILED_BOOTS)
      throw failing(slug, failed)
    await parts.admit()
    const sandbox = newId.sandbox()
    const made = { sandbox, spec, wanted, mode: isBooted ? ("restore" as const) : mode }
    await parts.make(made, signal)
    return { sandbox, made: true }
  }

  return async (slug: Slug, options: EnsureOptions, signal: AbortSignal): Promise<Ensured> => {
    const { waitMs = MAX_DRAIN_WAIT_MS } = options
    let patience: AbortSignal | undefined
    for (;;) {
      const current = (await rows.ofWorkspace(slug)).find(isCurrent)
      if (current !== undefined) await parts.settle(current.id)
      const ensured = await serially(slug, () => step(slug, options, signal))
      if (!("waitFor" in ensured)) {
        found(slug)
        return ensured
      }
      const { waitFor } = ensured
      patience ??= AbortSignal.any([signal, AbortSignal.timeout(waitMs)])
      const others = waiting.get(slug) ?? new AbortController()
      waiting.set(slug, others)
      const aWhile = AbortSignal.any([
        ...[patience, others.signal, AbortSignal.timeout(LOOK_AGAIN_MS)],
      ])
      try {
        await parts.gone(waitFor.id, aWhile)
      } catch (thrown) {
        if (patience.aborted) {
          const held = await leases.of(waitFor.id)
          throw draining(slug, waitFor, held, parts.whyNotGone(waitFor.id))
        }
        if (!aWhile.aborted) throw thrown
      }
    }
  }
}

const isCurrent = ({ phase }: SandboxRow): boolean => isCurrentPhase(phase)

const failing = (slug: Slug, { boots, why }: { boots: number; why: string }): BerthError =>
  new BerthError("workspace.failing", `the last ${boots} boots of ${slug} failed: ${why}`, {
    details: { workspace: slug, boots },
  })

export const bootFailed = ({ id: sandbox, workspace }: SandboxRow, reason = "not said why") =>
  new BerthError("boot.failed", `the boot of ${workspace} failed: ${reason}`, {
    details: { workspace, sandbox, reason },
  })

const draining = (
  slug: Slug,
  { id: sandbox }: SandboxRow,
  held: readonly Lease[],
  failure: string | undefined,
): BerthError => {
  const users = usesAmong(held).map(userOf)
  const keptFor = keepsAmong(held).map(userOf)
  const why =
    (users.length > 0 && `used by ${users.join(", ")}`) ||
    (keptFor.length > 0 && `kept for ${keptFor.join(", ")}`) ||
    (failure !== undefined && `stopping; the last attempt failed: ${failure}`) ||
    "stopping"
  const message = `${slug} waits for ${sandbox}, which is ${why}`
  return new BerthError("workspace.draining", message, {
    details: { workspace: slug, sandbox, users, ...(keptFor.length > 0 && { keptFor }) },
  })
}
