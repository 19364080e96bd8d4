import type { Backend, ObservedSandbox } from "@berth/backends/backend"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import { type Lease, usesAmong } from "@berth/protocol/lease"
import type { SandboxIdentity, SandboxPhase } from "@berth/protocol/sandbox"
import type { BootSummary, DecisionView, SandboxView, SandboxWhy } from "@berth/protocol/sandboxes"
import { summaryOf } from "../keeping/boot-summary.ts"
import type { Bridges } from "../keeping/bridges.ts"
import type { Connections } from "../keeping/connections.ts"
import type { Decisions } from "../state/decisions.ts"
import { USABLE_PHASES } from "../state/phases.ts"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { FoundSharedDirectories } from "../state/shared-directories.ts"
import { unknownSandbox } from "../state/unknown.ts"
import type { Leases } from "../use/leases.ts"

export interface ViewsParts {
  readonly installation: InstallationId
  readonly backend: Pick<Backend, "list" | "inspect">
  readonly rows: Rows
  readonly leases: Leases
  readonly decisions: Decisions
  readonly connections: Connections
  readonly sharedDirectories: FoundSharedDirectories
  readonly bridges: Pick<Bridges, "trace">
  /** Why the sandbox stays halted, if it does. */
  readonly held: (sandbox: SandboxId) => string | undefined
}

/** Sandboxes as the API shows them. */
export interface Views {
  /** Every sandbox that is not gone, and the last one of each workspace that has none; oldest first. */
  list(signal: AbortSignal): Promise<SandboxView[]>
  get(sandbox: SandboxId, signal: AbortSignal): Promise<SandboxView>
  why(sandbox: SandboxId): Promise<SandboxWhy>
}

export const openViews = (parts: ViewsParts): Views => new SandboxViews(parts)

class SandboxViews implements Views {
  readonly #parts: ViewsParts

  constructor(parts: ViewsParts) {
    this.#parts = parts
  }

  async list(signal: AbortSignal): Promise<SandboxView[]> {
    const { rows, backend, leases } = this.#parts
    const [known, found, held] = await Promise.all([
      rows.listShown(),
      backend.list({ signal }),
      leases.all(),
    ])
    const observed = new Map(found.map((each) => [each.identity.sandbox, each]))
    const isKnown = new Set(known.map(({ id }) => id))
    const strangers = found.filter(({ identity }) => !isKnown.has(identity.sandbox))
    const shown = known.map(async (row) =>
      this.#view(
        { row, observed: observed.get(row.id) },
        held.get(row.id) ?? [],
        await this.#listedBoot(row, signal),
      ),
    )
    return [
      ...(await Promise.all(shown)),
      ...strangers.map((each) => this.#view({ row: undefined, observed: each }, [], undefined)),
    ].sort((one, other) => (one.createdAt < other.createdAt ? -1 : 1))
  }

  async get(sandbox: SandboxId, signal: AbortSignal): Promise<SandboxView> {
    const { rows, backend, leases } = this.#parts
    const boot = await this.#readBoot(sandbox, signal)
    const [row, observed, held] = await Promise.all([
      rows.get(sandbox),
      backend.inspect(sandbox, { signal }),
      leases.of(sandbox),
    ])
    if (row === undefined && observed === undefined) throw unknownSandbox(sandbox)
    return this.#view({ row, observed }, held, boot)
  }

  async why(sandbox: SandboxId): Promise<SandboxWhy> {
    const { rows, backend, decisions, leases } = this.#parts
    const [row, observed] = await Promise.all([rows.get(sandbox), backend.inspect(sandbox)])
    const said = await decisions.of(sandbox)
    if (row === undefined && observed === undefined && said.length === 0)
      throw unknownSandbox(sandbox)
    const halted = this.#parts.held(sandbox)
    const held = await leases.of(sandbox)
    return {
      sandbox,
      workspace: row?.workspace ?? observed?.identity.workspace ?? null,
      phase: phaseOf({ row, observed }, halted),
      ...(halted !== undefined && { halted }),
      inUse: usesAmong(held).length > 0,
      leases: held,
      decisions: withHeld(said, halted),
    }
  }

  #view(found: Found, held: readonly Lease[], boot: BootSummary | undefined): SandboxView {
    const { row, observed } = found
    const identity = this.#identityOf(found)
    const halted = this.#parts.held(identity.sandbox)
    const hostPorts = this.#parts.connections.get(identity.sandbox)?.hostPorts ?? []
    return {
      identity,
      phase: phaseOf(found, halted),
      ...(halted !== undefined && { halted }),
      createdAt: observed?.createdAt ?? new Date(row?.createdAtMs ?? 0).toISOString(),
      unheldLimits: [...(observed?.unheldLimits ?? [])],
      warnings: [...(row?.warnings ?? [])],
      ...(observed?.exit && { exit: observed.exit }),
      boot: boot ?? null,
      ...(hostPorts.length > 0 && { hostPorts: [...hostPorts] }),
      inUse: usesAmong(held).length > 0,
      leases: [...held],
    }
  }

  #identityOf({ row, observed }: Found): SandboxIdentity {
    if (observed !== undefined) return observed.identity
    const { installation } = this.#parts
    const { id: sandbox, workspace, configHash } = row as SandboxRow
    return { installation, workspace, sandbox, configHash }
  }

  /** The boot of a listed sandbox. A failed boot is read after a restart, too, so that its reason is shown. */
  async #listedBoot({ id, phase }: SandboxRow, signal: AbortSignal) {
    if (phase === "failed") return await this.#readBoot(id, signal)
    return this.#parts.connections.get(id)?.boot
  }

  /**
   * Reads the boot of a sandbox. A sandbox that does not answer is shown without. The trace of a sandbox that is gone is
   * read from its shared directory.
   */
  async #readBoot(sandbox: SandboxId, signal: AbortSignal): Promise<BootSummary | undefined> {
    const { connections, sharedDirectories, bridges } = this.#parts
    const connection = connections.get(sandbox)
    if (connection !== undefined) {
      if (connection.boot === undefined) await connection.readBoot(signal).catch(() => {})
      return connection.boot
    }
    const shared = await sharedDirectories.find(sandbox)
    return shared && (await bridges.trace(shared, signal).then(summaryOf, () => undefined))
  }
}

/** Adds the reason of a halt, also where the disk had no room to write it down. */
const withHeld = (said: readonly DecisionView[], reason: string | undefined): DecisionView[] => {
  if (reason === undefined || said[0]?.reason === reason) return [...said]
  return [{ at: new Date().toISOString(), action: "keep", reason }, ...said]
}

interface Found {
  readonly row: SandboxRow | undefined
  readonly observed: ObservedSandbox | undefined
}

/** The shown phase. A sandbox that the store does not know is about to be asked, or quarantined. */
const phaseOf = ({ row, observed }: Found, held: string | undefined): SandboxPhase => {
  if (row === undefined) return observed === undefined ? "gone" : "quarantined"
  if (held !== undefined && USABLE_PHASES.some((usable) => usable === row.phase)) return "halted"
  return observed?.state === "paused" && row.phase === "ready" ? "paused" : row.phase
}
