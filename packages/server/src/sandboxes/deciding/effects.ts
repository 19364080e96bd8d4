import type { Backend, ObservedSandbox } from "@berth/backends/backend"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { bounded } from "@berth/protocol/bounded"
import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxIdentity } from "@berth/protocol/sandbox"
import type { Logger } from "../../logging/logger.ts"
import { operation } from "../../logging/operation.ts"
import type { Rescue } from "../disk/rescue.ts"
import type { WorkspaceFiles } from "../files/files.ts"
import { isBootOver } from "../keeping/boot-summary.ts"
import type { Bridges } from "../keeping/bridges.ts"
import type { SandboxEvents } from "../keeping/connection.ts"
import type { Connections } from "../keeping/connections.ts"
import type { DesiredConfigs } from "../making/desired-configs.ts"
import type { FailPoint } from "../state/fail-point.ts"
import { isCurrentPhase } from "../state/phases.ts"
import type { Records } from "../state/records.ts"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { SharedDirectories, SharedDirectory } from "../state/shared-directories.ts"
import type { Transients } from "../state/transients.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Activities } from "../use/activities.ts"
import type { Effects } from "./act.ts"

export interface EffectsParts {
  readonly backend: Backend
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly desiredConfigs: DesiredConfigs
  readonly files: WorkspaceFiles
  readonly sharedDirectories: SharedDirectories
  readonly records: Records
  readonly connections: Connections
  readonly activities: Activities
  readonly events: SandboxEvents
  readonly bridges: Pick<Bridges, "left" | "trace">
  readonly log: Logger
  readonly at: FailPoint
  readonly transients: Transients
  readonly rescue: Pick<Rescue, "isFull" | "end">
  /** Whether the sandbox stays halted until the disk has room. */
  readonly isHeld: (sandbox: SandboxId) => boolean
  readonly onGone: (row: SandboxRow) => void
}

/** The time that a sandbox has to end in order. */
export const STOP_GRACE_MS = 10_000

/** The time that a sandbox which is to be adopted has to say how its boot went. */
const BOOT_ANSWER_MS = 5_000

/** Room for a stack trace of a supervisor. */
const MAX_LAST_WORDS = 2_000

/** Removals mostly wait for processes to end. Fewer at once would take longer, and any number would choke an engine. */
const REMOVALS_AT_ONCE = 32

/** The effects on sandboxes. A crash may cut each short, and it is done again. */
export const openEffects = (parts: EffectsParts): Effects => new EngineEffects(parts)

class EngineEffects implements Effects {
  readonly #parts: EffectsParts
  readonly #inTurn = bounded(REMOVALS_AT_ONCE)
  /** The sandboxes whose removal failed: the processes may be gone while other parts are left. */
  readonly #halfRemoved = new Set<SandboxId>()

  constructor(parts: EffectsParts) {
    this.#parts = parts
  }

  async tell(...[sandbox, phase, reason]: Parameters<Effects["tell"]>): Promise<void> {
    const change = { type: "sandbox.phase", sandbox, phase, reason } as const
    const message = `its sandbox is replaced when nobody uses it: ${reason}`
    const warnings = phase === "draining" ? [{ type: "warning", message } as const] : []
    await this.#parts.events.tell(sandbox, [change, ...warnings])
  }

  async adopt({ identity, state }: ObservedSandbox): Promise<void> {
    const { records, workspaces, rows, connections, activities, log, transients } = this.#parts
    const { sandbox, workspace, configHash } = identity
    const record = await records.read(sandbox)
    if (record === undefined) throw nothingKnown(sandbox)
    // A sandbox takes no prompts after a failed boot.
    const failure = await this.#bootFailureOf(sandbox)
    // Files that are in use are not made anew; after a failed boot every step runs on them again.
    const isBooted = failure === undefined || record.mode === "restore"
    await workspaces.add(record.workspace, { isBooted })
    const row = { id: sandbox, workspace, configHash, mode: record.mode }
    const usable = (await this.#isCurrent(identity)) ? "ready" : "draining"
    const phase = failure === undefined ? usable : "failed"
    if (!(await rows.insert({ ...row, phase }))) await rows.revive(sandbox, phase)
    else if (failure !== undefined) await workspaces.bootFailed(workspace, configHash, failure)
    await connections.reconnect(sandbox)
    if (state === "paused") transients.change(sandbox, { isFrozen: true })
    // The store knows the sandbox now, so the prompts, commands and terminals in it get their leases.
    await activities.query(sandbox)
    log.warn({ op: "sandbox.adopt", sandbox, workspace }, "a running sandbox was adopted")
  }

  async quarantine({ identity, state }: ObservedSandbox): Promise<void> {
    const { backend, records, rows, connections, log } = this.#parts
    const { sandbox, workspace, configHash } = identity
    const record = await records.read(sandbox).catch(() => undefined)
    const row = { id: sandbox, workspace, configHash, mode: record?.mode ?? "fresh" }
    await rows.insert({ ...row, phase: "quarantined" })
    await connections.drop(sandbox, "is quarantined")
    if (state === "paused") await backend.resume(sandbox)
    if (state !== "created" && state !== "exited")
      await this.#inTurn(() => this.#stopInOrder(sandbox))
    log.warn({ op: "sandbox.quarantine", sandbox, workspace }, "an unknown sandbox was quarantined")
  }

  async bury(row: SandboxRow, reason: string): Promise<void> {
    const { rows, connections, workspaces, log } = this.#parts
    const { id: sandbox, workspace, configHash, phase } = row
    const lastWords = await this.#lastWords(sandbox)
    const why = [reason, lastWords].filter((said) => said !== "").join(": ")
    if (!(await rows.beginStopRegardless(sandbox, { cause: "ended", reason: why }))) return
    log.warn({ op: "sandbox.bury", sandbox, workspace, reason: why }, "a sandbox has ended")
    const boot = connections.get(sandbox)?.boot
    // A boot that has reported its failure is counted already.
    const hasTold = boot !== undefined && isBootOver(boot)
    if (phase === "booting" && !hasTold) await workspaces.bootFailed(workspace, configHash, why)
  }

  async pause(sandbox: SandboxId): Promise<void> {
    const { backend, transients } = this.#parts
    transients.change(sandbox, { isFrozen: true })
    await backend.pause(sandbox)
  }

  async resume(sandbox: SandboxId): Promise<void> {
    const { backend, transients } = this.#parts
    await backend.resume(sandbox)
    transients.change(sandbox, { isFrozen: false })
  }

  remove(sandbox: SandboxId): Promise<void> {
    const { log, at } = this.#parts
    return this.#inTurn(() =>
      operation(log, "sandbox.remove", { sandbox }, async () => {
        await this.#endAtOnce(sandbox)
        await this.#stopInOrder(sandbox)
        await at("remove.stopped")
        await this.#takeAway(sandbox)
        await at("remove.removed")
      }),
    )
  }

  async forget(row: SandboxRow): Promise<void> {
    const { connections, activities, transients, files, rows, sharedDirectories, at } = this.#parts
    const { id: sandbox, workspace } = row
    if (this.#halfRemoved.has(sandbox)) await this.#takeAway(sandbox)
    await connections.drop(sandbox, "has ended")
    await this.#takeLeft(sandbox)
    await at("forget.heard")
    activities.forget(sandbox)
    transients.change(sandbox, { isFrozen: false })
    await files.release(workspace, sandbox)
    await at("forget.released")
    // The shared directory of the sandbox that ends now is kept, so that the boot of a workspace's last sandbox can still be
    // looked at.
    for (const other of await rows.goneOf(workspace)) await sharedDirectories.remove(other)
    await at("forget.unshared")
    await this.tell(sandbox, "gone", row.stop?.reason ?? "it has ended")
    await rows.move(sandbox, ["stopping", "quarantined"], "gone")
    await at("forget.gone")
    transients.forget(sandbox)
    this.#parts.onGone(row)
  }

  /** Stops a sandbox in order; does nothing if the sandbox is not there any more. */
  async #stopInOrder(sandbox: SandboxId): Promise<void> {
    try {
      await this.#parts.backend.stop(sandbox, { graceMs: STOP_GRACE_MS })
    } catch (thrown) {
      if (!(thrown instanceof BerthError && thrown.code === "backend.unknown_sandbox")) throw thrown
    }
  }

  /**
   * Kills a sandbox that fills the disk, or that would have to stop on a full disk: in its grace period it would write,
   * and lose those writes.
   */
  async #endAtOnce(sandbox: SandboxId): Promise<void> {
    const { rescue, isHeld } = this.#parts
    if (isHeld(sandbox) || (await rescue.isFull())) await rescue.end(sandbox)
  }

  async #takeAway(sandbox: SandboxId): Promise<void> {
    this.#halfRemoved.add(sandbox)
    await this.#parts.backend.remove(sandbox)
    this.#halfRemoved.delete(sandbox)
  }

  /** The last output of the sandbox's first process, which says why it ended if anything does. */
  async #lastWords(sandbox: SandboxId): Promise<string> {
    const text = await this.#parts.backend.logs(sandbox).catch(() => "")
    return text.trim().slice(-MAX_LAST_WORDS)
  }

  /**
   * Stores the events that the sandbox had on disk when it ended. If the store cannot take them now, the caller tries
   * again.
   */
  async #takeLeft(sandbox: SandboxId): Promise<void> {
    const { sharedDirectories, events } = this.#parts
    const shared = await sharedDirectories.find(sandbox)
    if (shared === undefined) return
    for await (const left of this.#leftOf(shared)) await events.take(sandbox, left)
  }

  /**
   * Reads the journal that a sandbox left. The sandbox wrote it, so damaged contents are not believed and hold up
   * nothing.
   */
  async *#leftOf(shared: SharedDirectory): AsyncGenerator<readonly Event[]> {
    const { events, bridges, log } = this.#parts
    const { sandbox } = shared
    const after = await events.lastSeen(sandbox)
    try {
      yield* bridges.left(shared, after)
    } catch (err) {
      log.warn(
        { op: "sandbox.takeLeft", sandbox, err },
        "the last events of a sandbox cannot be read",
      )
      const reason = "the last events of the sandbox cannot be read"
      await events.tell(sandbox, [{ type: "gap", reason }])
    }
  }

  /** Why the boot failed, as the sandbox says; undefined: it did not fail, or the sandbox does not answer. */
  async #bootFailureOf(sandbox: SandboxId): Promise<string | undefined> {
    const { sharedDirectories, bridges } = this.#parts
    const shared = await sharedDirectories.find(sandbox)
    const signal = timeoutSignal(BOOT_ANSWER_MS)
    const trace = shared && (await bridges.trace(shared, signal).catch(() => undefined))
    if (trace?.outcome !== "failed") return undefined
    return `${trace.ending?.step ?? "boot"}: ${trace.ending?.reason ?? "not said why"}`
  }

  /** Whether the sandbox is the one that its workspace wants, and the workspace has no other. */
  async #isCurrent({ sandbox, workspace, configHash }: SandboxIdentity): Promise<boolean> {
    const { rows, desiredConfigs } = this.#parts
    const others = (await rows.ofWorkspace(workspace)).filter(({ id }) => id !== sandbox)
    if (others.some(({ phase }) => isCurrentPhase(phase))) return false
    return (await desiredConfigs.known(workspace)) === configHash
  }
}

const nothingKnown = (sandbox: SandboxId): BerthError =>
  new BerthError("backend.state_damaged", `nothing is known of ${sandbox} but that it runs`, {
    details: { sandbox },
  })
