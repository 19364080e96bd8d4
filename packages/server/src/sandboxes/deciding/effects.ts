import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { SandboxId } from "@berth/protocol/ids"
import type { Backend } from "../../backends/backend.ts"
import { bounded } from "../../host/bounded.ts"
import type { Logger } from "../../logging/logger.ts"
import { operation } from "../../logging/operation.ts"
import type { Rescue } from "../disk/rescue.ts"
import type { WorkspaceFiles } from "../files/files.ts"
import { isBootOver } from "../keeping/boot-summary.ts"
import type { Bridges } from "../keeping/bridges.ts"
import type { Keepers } from "../keeping/keepers.ts"
import type { SandboxEvents } from "../keeping/kept.ts"
import type { Wants } from "../making/wanted.ts"
import type { FailPoint } from "../state/fail-point.ts"
import type { Links, SandboxLink } from "../state/links.ts"
import type { Records } from "../state/records.ts"
import { isCurrentPhase, type Rows, type SandboxRow } from "../state/rows.ts"
import type { Transients } from "../state/transients.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Lives } from "../use/lives.ts"
import type { Effects } from "./act.ts"

export interface EffectsParts {
  readonly backend: Backend
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly wants: Wants
  readonly files: WorkspaceFiles
  readonly links: Links
  readonly records: Records
  readonly keepers: Keepers
  readonly lives: Lives
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
export const openEffects = (parts: EffectsParts): Effects => {
  const { backend, rows, links, records, keepers, lives, files, log, at, transients } = parts
  const inTurn = bounded(REMOVALS_AT_ONCE)

  /** Stops a sandbox in order; does nothing if the sandbox is not there any more. */
  const stopInOrder = async (sandbox: SandboxId): Promise<void> => {
    try {
      await backend.stop(sandbox, { graceMs: STOP_GRACE_MS })
    } catch (thrown) {
      if (!(thrown instanceof BerthError && thrown.code === "backend.unknown_sandbox")) throw thrown
    }
  }

  /**
   * Kills a sandbox that fills the disk, or that would have to stop on a full disk: in its grace period it would write,
   * and lose those writes.
   */
  const endAtOnce = async (sandbox: SandboxId): Promise<void> => {
    const { rescue, isHeld } = parts
    if (isHeld(sandbox) || (await rescue.isFull())) await rescue.end(sandbox)
  }

  /** The sandboxes whose removal failed: the processes may be gone while other parts are left. */
  const halfRemoved = new Set<SandboxId>()
  const takeAway = async (sandbox: SandboxId): Promise<void> => {
    halfRemoved.add(sandbox)
    await backend.remove(sandbox)
    halfRemoved.delete(sandbox)
  }

  /** The last output of the sandbox's first process, which says why it ended if anything does. */
  const lastWords = async (sandbox: SandboxId): Promise<string> => {
    const text = await backend.logs(sandbox).catch(() => "")
    return text.trim().slice(-MAX_LAST_WORDS)
  }

  /**
   * Stores the events that the sandbox had on disk when it ended. If the store cannot take them now, the caller tries
   * again.
   */
  const takeLeft = async (sandbox: SandboxId): Promise<void> => {
    const link = await links.find(sandbox)
    if (link === undefined) return
    for await (const events of leftOf(link)) await parts.events.take(sandbox, events)
  }

  /**
   * Reads the journal that a sandbox left. The sandbox wrote it, so damaged contents are not believed and hold up
   * nothing.
   */
  const leftOf = async function* (link: SandboxLink): AsyncGenerator<readonly Event[]> {
    const { sandbox } = link
    const after = await parts.events.lastSeen(sandbox)
    try {
      yield* parts.bridges.left(link, after)
    } catch (err) {
      log.warn(
        { op: "sandbox.takeLeft", sandbox, err },
        "the last events of a sandbox cannot be read",
      )
      const reason = "what the sandbox said last cannot be read"
      await parts.events.tell(sandbox, [{ type: "gap", reason }])
    }
  }

  /** Why the boot failed, as the sandbox says; undefined: it did not fail, or the sandbox does not answer. */
  const bootFailureOf = async (sandbox: SandboxId): Promise<string | undefined> => {
    const link = await links.find(sandbox)
    const signal = AbortSignal.timeout(BOOT_ANSWER_MS)
    const trace = link && (await parts.bridges.trace(link, signal).catch(() => undefined))
    if (trace?.outcome !== "failed") return undefined
    return `${trace.ending?.step ?? "boot"}: ${trace.ending?.reason ?? "not said why"}`
  }

  /** Tells the sessions of a sandbox about its phase. */
  const tell: Effects["tell"] = async (sandbox, phase, reason) => {
    const warning =
      phase === "draining"
        ? [
            {
              type: "warning",
              message: `its sandbox is replaced when nobody uses it: ${reason}`,
            } as const,
          ]
        : []
    await parts.events.tell(sandbox, [
      { type: "sandbox.phase", sandbox, phase, reason },
      ...warning,
    ])
  }

  return {
    tell,

    adopt: async ({ identity, state }) => {
      const { sandbox, workspace, configHash } = identity
      const record = await records.read(sandbox)
      if (record === undefined) throw nothingKnown(sandbox)
      // A sandbox takes no prompts after a failed boot.
      const failure = await bootFailureOf(sandbox)
      // Files that are in use are not made anew; after a failed boot every step runs on them again.
      const isBooted = failure === undefined || record.mode === "restore"
      await parts.workspaces.add(record.workspace, { isBooted })
      const row = { id: sandbox, workspace, configHash, mode: record.mode }
      const others = await rows.ofWorkspace(workspace)
      const isCurrent =
        (await parts.wants.known(workspace)) === configHash &&
        !others.some(({ id, phase }) => id !== sandbox && isCurrentPhase(phase))
      const usable = isCurrent ? "ready" : "draining"
      const phase = failure === undefined ? usable : "failed"
      if (!(await rows.insert({ ...row, phase }))) await rows.revive(sandbox, phase)
      else if (failure !== undefined)
        await parts.workspaces.bootFailed(workspace, configHash, failure)
      await keepers.takeUp(sandbox)
      if (state === "paused") transients.of(sandbox).isFrozen = true
      // The store knows the sandbox now, so the prompts, commands and terminals in it get their leases.
      await lives.ask(sandbox)
      log.warn({ op: "sandbox.adopt", sandbox, workspace }, "a running sandbox was adopted")
    },

    quarantine: async ({ identity, state }) => {
      const { sandbox, workspace, configHash } = identity
      const record = await records.read(sandbox).catch(() => undefined)
      const row = { id: sandbox, workspace, configHash, mode: record?.mode ?? "fresh" }
      await rows.insert({ ...row, phase: "quarantined" })
      await keepers.letGo(sandbox, "is quarantined")
      if (state === "paused") await backend.resume(sandbox)
      if (state !== "created" && state !== "exited") await inTurn(() => stopInOrder(sandbox))
      log.warn(
        { op: "sandbox.quarantine", sandbox, workspace },
        "an unknown sandbox was quarantined",
      )
    },

    bury: async ({ id: sandbox, workspace, configHash, phase }, reason) => {
      const why = [reason, await lastWords(sandbox)].filter((said) => said !== "").join(": ")
      if (!(await rows.beginStopRegardless(sandbox, { cause: "ended", reason: why }))) return
      log.warn({ op: "sandbox.bury", sandbox, workspace, reason: why }, "a sandbox has ended")
      const boot = keepers.get(sandbox)?.boot
      // A boot that has reported its failure is counted already.
      const hasTold = boot !== undefined && isBootOver(boot)
      if (phase === "booting" && !hasTold)
        await parts.workspaces.bootFailed(workspace, configHash, why)
    },

    pause: async (sandbox) => {
      transients.of(sandbox).isFrozen = true
      await backend.pause(sandbox)
    },

    resume: async (sandbox) => {
      await backend.resume(sandbox)
      transients.of(sandbox).isFrozen = false
    },

    remove: (sandbox) =>
      inTurn(() =>
        operation(log, "sandbox.remove", { sandbox }, async () => {
          await endAtOnce(sandbox)
          await stopInOrder(sandbox)
          await at("remove.stopped")
          await takeAway(sandbox)
          await at("remove.removed")
        }),
      ),

    forget: async (row) => {
      const { id: sandbox, workspace } = row
      if (halfRemoved.has(sandbox)) await takeAway(sandbox)
      await keepers.letGo(sandbox, "has ended")
      await takeLeft(sandbox)
      await at("forget.heard")
      lives.forget(sandbox)
      transients.of(sandbox).isFrozen = false
      await files.release(workspace, sandbox)
      await at("forget.released")
      // The link of the sandbox that ends now is kept, so that the boot of a workspace's last sandbox can still be
      // looked at.
      for (const other of await rows.goneOf(workspace)) await links.remove(other)
      await at("forget.unlinked")
      await tell(sandbox, "gone", row.stop?.reason ?? "it has ended")
      await rows.move(sandbox, ["stopping", "quarantined"], "gone")
      await at("forget.gone")
      transients.forget(sandbox)
      parts.onGone(row)
    },
  }
}

const nothingKnown = (sandbox: SandboxId): BerthError =>
  new BerthError("backend.state_damaged", `nothing is known of ${sandbox} but that it runs`, {
    details: { sandbox },
  })
