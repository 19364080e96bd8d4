import type { Serially } from "@berth/host/serial"
import { timeoutSignal } from "@berth/host/timeout-signal"
import type { BootMode } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, type Slug } from "@berth/protocol/ids"
import { keepsAmong, type Lease, userOf, usesAmong } from "@berth/protocol/lease"
import type { BootSummary } from "@berth/protocol/sandboxes"
import { decideRequest, type RequestAnswer, type SandboxThere } from "../deciding/decide-request.ts"
import { undrain } from "../deciding/undrain.ts"
import { isBootOver } from "../keeping/boot-summary.ts"
import type { DesiredConfig, DesiredConfigs } from "../making/desired-configs.ts"
import type { NewRow } from "../making/make.ts"
import type { Decisions } from "../state/decisions.ts"
import type { Departures } from "../state/departures.ts"
import { isCurrentPhase } from "../state/phases.ts"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { Transients } from "../state/transients.ts"
import { unknownWorkspace } from "../state/unknown.ts"
import type { Workspace } from "../state/workspace.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Leases } from "../use/leases.ts"

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
  readonly desiredConfigs: DesiredConfigs
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
  /** Has the sandbox's worker look at it. */
  readonly wake: (sandbox: SandboxId) => void
  /** Like `wake`, and resolves when the worker is done: a dead sandbox is not current any more then. */
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
  const ensuring = new Ensuring(parts)
  return (slug, options, signal) => ensuring.ensure(slug, options, signal)
}

/** The sandbox that a request got, or the one whose end it waits for. */
type Step = Ensured | { readonly waitFor: SandboxRow }

/** Executes the answers of `decideRequest`, until a request has its sandbox or is refused. */
class Ensuring {
  readonly #parts: EnsureParts
  /** The waiting requests of each workspace: when one of them gets its sandbox, the others look again. */
  readonly #waiting = new Map<Slug, AbortController>()

  constructor(parts: EnsureParts) {
    this.#parts = parts
  }

  async ensure(slug: Slug, options: EnsureOptions, signal: AbortSignal): Promise<Ensured> {
    const { rows, serially, settle } = this.#parts
    let patience: AbortSignal | undefined
    for (;;) {
      const current = (await rows.ofWorkspace(slug)).find(isCurrent)
      if (current !== undefined) await settle(current.id)
      const step = await serially(slug, () => this.#step(slug, options, signal))
      if (!("waitFor" in step)) {
        this.#wakeOthers(slug)
        return step
      }
      patience ??= AbortSignal.any([signal, timeoutSignal(options.waitMs ?? MAX_DRAIN_WAIT_MS)])
      await this.#waitFor(slug, step.waitFor, patience)
    }
  }

  /** Decides anew from what there is now, and executes the answer. */
  async #step(slug: Slug, options: EnsureOptions, signal: AbortSignal): Promise<Step> {
    const { rows, workspaces, desiredConfigs, bootOf } = this.#parts
    const { isRequested, retry = false, waitMs } = options
    const workspace = await workspaces.get(slug)
    if (workspace === undefined) throw unknownWorkspace(slug)
    const isTold = waitMs !== undefined
    const desired = await desiredConfigs.of(workspace.spec, { signal, isTold })
    const all = await rows.ofWorkspace(slug)
    const row = all.find(isCurrent) ?? all[0]
    const answer = decideRequest({
      there: row && thereOf(row, bootOf(row.id)),
      desiredHash: desired.hash,
      failed: workspace.failed,
      isRequested,
      retry,
    })
    if (row !== undefined) return await this.#withThere(answer, row, workspace)
    if (answer.kind === "refuse-failing") throw failing(slug, workspace.failed)
    return await this.#make({ workspace, desired, mode: options.mode }, signal)
  }

  /** Executes the answer to a request whose workspace has a sandbox. */
  async #withThere(
    answer: RequestAnswer,
    row: SandboxRow,
    { failed }: Pick<Workspace, "failed">,
  ): Promise<Step> {
    const { rows, transients, wake } = this.#parts
    switch (answer.kind) {
      case "use":
        return { sandbox: row.id, made: false }
      case "refuse-failed-boot":
        throw bootFailed(row, failed?.why)
      case "undrain":
        if (await undrain(this.#parts, row.id)) return { sandbox: row.id, made: false }
        break
      case "replace": {
        const begin = answer.givesWay ? rows.beginStopUnlessUsed : rows.beginStop
        await begin(row.id, { cause: "stale", reason: answer.reason })
        break
      }
      case "wait":
        if (answer.asksSuccessor) transients.change(row.id, { isSuccessorAsked: true })
    }
    wake(row.id)
    return { waitFor: row }
  }

  async #make(
    { workspace, desired, mode }: { workspace: Workspace; desired: DesiredConfig; mode: BootMode },
    signal: AbortSignal,
  ): Promise<Ensured> {
    const { admit, make } = this.#parts
    await admit()
    const sandbox = newId.sandbox()
    const { spec, isBooted } = workspace
    await make({ sandbox, spec, desired, mode: isBooted ? "restore" : mode }, signal)
    return { sandbox, made: true }
  }

  /** Waits until the sandbox is gone, another request has its sandbox, or some time is over. */
  async #waitFor(slug: Slug, row: SandboxRow, patience: AbortSignal): Promise<void> {
    const { departures, leases, decisions } = this.#parts
    const others = this.#waiting.get(slug) ?? new AbortController()
    this.#waiting.set(slug, others)
    const lookAgain = timeoutSignal(LOOK_AGAIN_MS)
    const aWhile = AbortSignal.any([patience, others.signal, lookAgain])
    try {
      await departures.of(row.id, aWhile)
    } catch (thrown) {
      if (patience.aborted)
        throw draining(slug, row, await leases.of(row.id), decisions.failureOf(row.id))
      if (!aWhile.aborted) throw thrown
    }
  }

  #wakeOthers(slug: Slug): void {
    this.#waiting.get(slug)?.abort()
    this.#waiting.delete(slug)
  }
}

const thereOf = (
  { phase, configHash }: SandboxRow,
  boot: BootSummary | undefined,
): SandboxThere => ({
  phase: phase as SandboxThere["phase"],
  configHash,
  hasBootFailed: hasFailed(boot),
})

const hasFailed = (boot: BootSummary | undefined): boolean =>
  boot !== undefined && isBootOver(boot) && boot.readyAtMs === null

const isCurrent = ({ phase }: SandboxRow): boolean => isCurrentPhase(phase)

const failing = (slug: Slug, failed: Workspace["failed"]): BerthError => {
  const { boots, why } = failed ?? { boots: 0, why: "not said why" }
  return new BerthError("workspace.failing", `the last ${boots} boots of ${slug} failed: ${why}`, {
    details: { workspace: slug, boots },
  })
}

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
