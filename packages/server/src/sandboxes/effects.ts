import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { SandboxId } from "@berth/protocol/ids"
import type { Backend } from "../backends/backend.ts"
import { bounded } from "../host/bounded.ts"
import type { Logger } from "../logging/logger.ts"
import { operation } from "../logging/operation.ts"
import { isBootOver } from "./boot-summary.ts"
import type { Bridges } from "./bridges.ts"
import type { Rescue } from "./disk/rescue.ts"
import type { FailPoint } from "./fail-point.ts"
import type { WorkspaceFiles } from "./files.ts"
import type { Keepers } from "./keepers.ts"
import type { SandboxEvents } from "./kept.ts"
import type { Links, SandboxLink } from "./links.ts"
import type { Lives } from "./lives.ts"
import type { Effects } from "./look.ts"
import type { Records } from "./records.ts"
import { isCurrentPhase, type Rows, type SandboxRow } from "./rows.ts"
import type { Wants } from "./wanted.ts"
import type { Workspaces } from "./workspaces.ts"

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
  /** Those whose processes are frozen, or are about to be. */
  readonly frozen: Set<SandboxId>
  readonly rescue: Pick<Rescue, "isFull" | "end">
  /** Whether it stays halted until the disk has room. */
  readonly isHeld: (sandbox: SandboxId) => boolean
  readonly onGone: (row: SandboxRow) => void
}

/** How long a sandbox has to end in order. */
export const STOP_GRACE_MS = 10_000

/** How long a sandbox that is to be adopted may take to say how its boot went. */
const BOOT_ANSWER_MS = 5_000

/** A stack trace of a supervisor fits. */
const MAX_LAST_WORDS = 2_000

/** Most of the time one waits for what ends in it: fewer at once take longer, and any number would choke an engine. */
const REMOVALS_AT_ONCE = 32

/** What is done to sandboxes: each may be cut short by a crash, and done again. */
export const openEffects = (parts: EffectsParts): Effects => {
  const { backend, rows, links, records, keepers, lives, files, log, at, frozen } = parts
  const inTurn = bounded(REMOVALS_AT_ONCE)

  /** Of one that is not there any more: nothing. */
  const stopInOrder = async (sandbox: SandboxId): Promise<void> => {
    try {
      await backend.stop(sandbox, { graceMs: STOP_GRACE_MS })
    } catch (thrown) {
      if (!(thrown instanceof BerthError && thrown.code === "backend.unknown_sandbox")) throw thrown
    }
  }

  /** Kills a sandbox that fills the disk, or finds it full: in a grace period it would write, and lose what it wrote. */
  const endAtOnce = async (sandbox: SandboxId): Promise<void> => {
    const { rescue, isHeld } = parts
    if (isHeld(sandbox) || (await rescue.isFull())) await rescue.end(sandbox)
  }

  /** Those whose removal failed: what ran may be gone, and what it had beside that not. */
  const halfRemoved = new Set<SandboxId>()
  const takeAway = async (sandbox: SandboxId): Promise<void> => {
    halfRemoved.add(sandbox)
    await backend.remove(sandbox)
    halfRemoved.delete(sandbox)
  }

  /** What its first process said last, which is why it ended, if it said why. */
  const lastWords = async (sandbox: SandboxId): Promise<string> => {
    const text = await backend.logs(sandbox).catch(() => "")
    return text.trim().slice(-MAX_LAST_WORDS)
  }

  /** What it had on disk to say when it ended. A store that cannot take it now is tried again. */
  const takeLeft = async (sandbox: SandboxId): Promise<void> => {
    const link = await links.find(sandbox)
    if (link === undefined) return
    for await (const events of leftOf(link)) await parts.events.take(sandbox, events)
  }

  /** It is in the sandbox's hands: what is not as it should be is not believed, and holds up nothing. */
  const leftOf = async function* (link: SandboxLink): AsyncGenerator<readonly Event[]> {
    const { sandbox } = link
    const after = await parts.events.lastSeen(sandbox)
    try {
      yield* parts.bridges.left(link, after)
    } catch (err) {
      log.warn({ op: "sandbox.takeLeft", sandbox, err }, "what it said last is not known")
      const reason = "what the sandbox said last cannot be read"
      await parts.events.tell(sandbox, [{ type: "gap", reason }])
    }
  }

  /** Why its boot failed, by its own word; undefined: it did not, or does not tell. */
  const bootFailureOf = async (sandbox: SandboxId): Promise<string | undefined> => {
    const link = await links.find(sandbox)
    const signal = AbortSignal.timeout(BOOT_ANSWER_MS)
    const trace = link && (await parts.bridges.trace(link, signal).catch(() => undefined))
    if (trace?.outcome !== "failed") return undefined
    return `${trace.ending?.step ?? "boot"}: ${trace.ending?.reason ?? "not said why"}`
  }

  /** To those who talk with an agent in it. */
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
      // Its prompts stay closed after a failed boot.
      const failure = await bootFailureOf(sandbox)
      // Files in use are not to be made anew; after a failed boot every step runs on them again.
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
      if (state === "paused") frozen.add(sandbox)
      // Now that it is known, what lives in it gets its leases.
      await lives.ask(sandbox)
      log.warn({ op: "sandbox.adopt", sandbox, workspace }, "a sandbox that was not known")
    },

    quarantine: async ({ identity, state }) => {
      const { sandbox, workspace, configHash } = identity
      const record = await records.read(sandbox).catch(() => undefined)
      const row = { id: sandbox, workspace, configHash, mode: record?.mode ?? "fresh" }
      await rows.insert({ ...row, phase: "quarantined" })
      await keepers.letGo(sandbox, "is quarantined")
      if (state === "paused") await backend.resume(sandbox)
      if (state !== "created" && state !== "exited") await inTurn(() => stopInOrder(sandbox))
      log.warn({ op: "sandbox.quarantine", sandbox, workspace }, "a sandbox that was not known")
    },

    bury: async ({ id: sandbox, workspace, configHash, phase }, reason) => {
      const why = [reason, await lastWords(sandbox)].filter((said) => said !== "").join(": ")
      if (!(await rows.beginStopRegardless(sandbox, { cause: "ended", reason: why }))) return
      log.warn({ op: "sandbox.bury", sandbox, workspace, reason: why }, "a sandbox has ended")
      const boot = keepers.get(sandbox)?.boot
      // One that has told why its boot failed is counted already.
      const hasTold = boot !== undefined && isBootOver(boot)
      if (phase === "booting" && !hasTold)
        await parts.workspaces.bootFailed(workspace, configHash, why)
    },

    pause: async (sandbox) => {
      frozen.add(sandbox)
      await backend.pause(sandbox)
    },

    resume: async (sandbox) => {
      await backend.resume(sandbox)
      frozen.delete(sandbox)
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
      frozen.delete(sandbox)
      await files.release(workspace, sandbox)
      await at("forget.released")
      // How the last one of a workspace booted can still be looked at.
      for (const other of await rows.goneOf(workspace)) await links.remove(other)
      await at("forget.unlinked")
      await tell(sandbox, "gone", row.stop?.reason ?? "it has ended")
      await rows.move(sandbox, ["stopping", "quarantined"], "gone")
      await at("forget.gone")
      parts.onGone(row)
    },
  }
}

const nothingKnown = (sandbox: SandboxId): BerthError =>
  new BerthError("backend.state_damaged", `nothing is known of ${sandbox} but that it runs`, {
    details: { sandbox },
  })
