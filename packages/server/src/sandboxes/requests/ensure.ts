import type { BootMode } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, type Slug } from "@berth/protocol/ids"
import { keepsAmong, type Lease, userOf, usesAmong } from "@berth/protocol/lease"
import type { BootSummary } from "@berth/protocol/sandboxes"
import type { Serially } from "../../host/serial.ts"
import { timeoutSignal } from "../../host/timeout-signal.ts"
import { undrain } from "../deciding/undrain.ts"
import { isBootOver } from "../keeping/boot-summary.ts"
import type { NewRow } from "../making/make.ts"
import type { Wants } from "../making/wanted.ts"
import type { Decisions } from "../state/decisions.ts"
import type { Departures } from "../state/departures.ts"
import { isCurrentPhase, type Rows, type SandboxRow } from "../state/rows.ts"
import type { Transients } from "../state/transients.ts"
import { unknownWorkspace } from "../state/unknown.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Leases } from "../use/leases.ts"

/** After this many failed boots of one config in a row, no other is tried until somebody asks for it. */
export const MAX_FAILED_BOOTS = 3

/**
 * How long a request waits for the users of a stale sandbox. Then it fails with their names, and the caller may ask
 * again.
 */
export const MAX_DRAIN_WAIT_MS = 20_000

/** How often a waiting request checks again whether it still has to wait: a stale sandbox may become current again. */
const LOOK_AGAIN_MS = 2_000

export interface EnsureParts {
  readonly rows: Rows
  readonly leases: Leases
  readonly workspaces: Workspaces
  readonly wants: Wants
  /** Runs one operation at a time for each workspace. */
  readonly serially: Serially
  readonly isBooting: (sandbox: SandboxId) => boolean
  readonly bootOf: (sandbox: SandboxId) => BootSummary | undefined
  readonly transients: Transients
  readonly decisions: Pick<Decisions, "failureOf">
  readonly departures: Pick<Departures, "of">
  /** Rejects where the host has no room. */
  readonly admit: () => Promise<void>
  /** Makes the sandbox of this row. */
  readonly make: (row: NewRow, signal: AbortSignal) => Promise<void>
  /** Has the sandbox looked at. */
  readonly wake: (sandbox: SandboxId) => void
  /** The same, and resolves when that is done: a dead sandbox is not current any more then. */
  readonly settle: (sandbox: SandboxId) => Promise<unknown>
}

export interface EnsureOptions {
  /** The boot mode for files that have not booted yet. */
  readonly mode: BootMode
  /** A person asks: the boot is tried although the last ones failed. */
  readonly isRequested: boolean
  /** Boots again where the last boot failed and its sandbox is kept. Default: refused. */
  readonly retry?: boolean
  /**
   * How long to wait for the users of a stale sandbox. A caller that says so asks again, and is told the progress of a
   * toolbox that is being built.
   */
  readonly waitMs?: number
}

export interface Ensured {
  readonly sandbox: SandboxId
  readonly made: boolean
}

/**
 * Gives the current sandbox of a workspace, made if there is none. A stale one is replaced as soon as nobody uses it:
 * until then the caller waits, for `waitMs` at most.
 */
export type Ensure = (slug: Slug, options: EnsureOptions, signal: AbortSignal) => Promise<Ensured>

export const openEnsure = (parts: EnsureParts): Ensure => {
  const { rows, leases, workspaces, wants, serially } = parts
  /** The waiting requests of each workspace: when one of them gets its sandbox, the others look again. */
  const waiting = new Map<Slug, AbortController>()
  const found = (slug: Slug): void => {
    waiting.get(slug)?.abort()
    waiting.delete(slug)
  }

  /** The sandbox that there is now, or the one to wait for. */
  const step = async (
    slug: Slug,
    { mode, isRequested, retry = false, waitMs }: EnsureOptions,
    signal: AbortSignal,
  ): Promise<Ensured | { readonly waitFor: SandboxRow }> => {
    const workspace = await workspaces.get(slug)
    if (workspace === undefined) throw unknownWorkspace(slug)
    const { spec, isBooted, failed } = workspace
    const wanted = await wants.of(spec, { signal, isTold: waitMs !== undefined })
    const all = await rows.ofWorkspace(slug)
    const there = all.find(isCurrent) ?? all[0]
    if (there !== undefined) {
      const isSame = there.configHash === wanted.hash
      const isFailed = there.phase === "failed"
      if (isSame && isFailed && !retry) throw bootFailed(there, failed?.why)
      const isRight = isSame && !isFailed && !hasFailed(parts.bootOf(there.id))
      // A draining sandbox whose config is wanted again becomes current again.
      if (isRight && (isCurrent(there) || (await undrain(parts, there.id))))
        return { sandbox: there.id, made: false }
      if (isSame && (isFailed || isCurrent(there))) {
        // A lease that yields gives way to a request.
        const begin = isRequested ? rows.beginStopUnlessUsed : rows.beginStop
        await begin(there.id, { cause: "stale", reason: "its boot had failed" })
      }
      // Leases that yield give way to a successor that a person asks for.
      if (!isSame && isRequested) parts.transients.change(there.id, { isSuccessorAsked: true })
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
      patience ??= AbortSignal.any([signal, timeoutSignal(waitMs)])
      const others = waiting.get(slug) ?? new AbortController()
      waiting.set(slug, others)
      const aWhile = AbortSignal.any([...[patience, others.signal, timeoutSignal(LOOK_AGAIN_MS)]])
      try {
        await parts.departures.of(waitFor.id, aWhile)
      } catch (thrown) {
        if (patience.aborted) {
          const held = await leases.of(waitFor.id)
          throw draining(slug, waitFor, held, parts.decisions.failureOf(waitFor.id))
        }
        if (!aWhile.aborted) throw thrown
      }
    }
  }
}

const hasFailed = (boot: BootSummary | undefined): boolean =>
  boot !== undefined && isBootOver(boot) && boot.readyAtMs === null

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
