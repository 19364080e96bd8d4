import type { Socket } from "node:net"
import { setTimeout as pause } from "node:timers/promises"
import type { BootMode, BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import type { LeaseId, SandboxId, Slug } from "@berth/protocol/ids"
import type { Lease } from "@berth/protocol/lease"
import type { SandboxPhase } from "@berth/protocol/sandbox"
import type { ReconcileReport, SandboxView, SandboxWhy } from "@berth/protocol/sandboxes"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { EngineState, ObservedSandbox } from "../backends/backend.ts"
import type { Layers } from "../layers/layers.ts"
import { operation } from "../logging/operation.ts"
import type { Store } from "../store/open.ts"
import type { Toolbox } from "../toolbox/store.ts"
import { begunBoot, isBootOver, summaryOf } from "./boot-summary.ts"
import type { Bridges } from "./bridges.ts"
import type { Clock } from "./clock.ts"
import type { Policy } from "./decide.ts"
import { openDecisions } from "./decisions.ts"
import { openEffects } from "./effects.ts"
import { type Ensured, type NewRow, openEnsure } from "./ensure.ts"
import { openFiles } from "./files.ts"
import { Idle } from "./idle.ts"
import { openKeepers } from "./keepers.ts"
import type { KeepParts, Kept } from "./kept.ts"
import { type LaunchParts, launch } from "./launch.ts"
import { type LeaseRequest, openLeases } from "./leases.ts"
import type { SandboxLink } from "./links.ts"
import { openLives } from "./lives.ts"
import { type LookParts, look } from "./look.ts"
import { everySandbox, reconcile } from "./reconcile.ts"
import { openRows, type SandboxRow } from "./rows.ts"
import { openWants } from "./wanted.ts"
import { openWorkers } from "./workers.ts"
import { openWorkspaces } from "./workspaces.ts"

export interface SandboxesParts extends Omit<KeepParts, "onBootOver">, LaunchParts {
  readonly store: Pick<Store, "db">
  readonly layers: Layers
  readonly bridges: Bridges
  /** The one that new sandboxes get: found or built when the first is made. */
  readonly toolbox: () => Promise<Pick<Toolbox, "id" | "directory">>
  readonly policy: Policy
  readonly clock: Clock
  /** What of the host runs low, in words. */
  readonly shortage: () => Promise<string | undefined>
}

/** Somebody's use of a sandbox, from which it is not taken away until the use ends. */
export interface Use {
  /** The one that is used: what took the place of one that is gone. */
  readonly sandbox: SandboxId
  /** A connection to what it serves, and the token that it asks for. Whoever gets it ends it. */
  dial(signal: AbortSignal): Promise<{ socket: Socket; token: string }>
  /** Of a use that lasts only while it is used. */
  renew(): void
  /** Something may live on that this use began: it gets a lease of its own. */
  leave(): Promise<void>
  /** Twice is as good as once. */
  end(): Promise<void>
}

export type Claim = Pick<LeaseRequest, "kind" | "holder" | "ttlMs">

/** The sandboxes of an installation. They outlive whoever made them, and nobody who uses one is cut off. */
export interface Sandboxes {
  /** Takes up what runs already, and from then on does what there is to do. Once, before anything else. */
  adopt(signal: AbortSignal): Promise<void>
  /** The current sandbox of a workspace, as it is described here. Resolves when it has started; it boots on. */
  up(workspace: WorkspaceSpec, mode: BootMode, signal: AbortSignal): Promise<Ensured>
  /** Those that are not gone, and the last one of each workspace that has none; oldest first. */
  list(signal: AbortSignal): Promise<SandboxView[]>
  get(sandbox: SandboxId, signal: AbortSignal): Promise<SandboxView>
  why(sandbox: SandboxId): Promise<SandboxWhy>
  /** Resolves when it is ready, will never be, or the signal fires. */
  booted(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** Takes it from whoever would stop it; wakes it if it sleeps, and makes another where it is gone. */
  use(sandbox: SandboxId, claim: Claim, signal: AbortSignal): Promise<Use>
  /** Keeps it until it is released, or the time is over. */
  hold(sandbox: SandboxId, holder: string, forMs?: number): Promise<Lease>
  release(sandbox: SandboxId, lease: LeaseId): Promise<void>
  /** Its files are kept, and the next use starts it again. Refused while somebody uses it, unless forced. */
  stop(sandbox: SandboxId, options: { force: boolean }): Promise<void>
  /** Resolves when nothing is left of it, and of its workspace. Refused while somebody uses it, unless forced. */
  remove(sandbox: SandboxId, options: { force: boolean }): Promise<void>
  reconcile(options: { dryRun: boolean }): Promise<ReconcileReport>
  trace(sandbox: SandboxId, signal: AbortSignal): Promise<BootTrace>
  /** What its engine says of it now; undefined: there is none. One that is frozen in use is woken. */
  stateOf(sandbox: SandboxId): Promise<EngineState | undefined>
  kept(sandbox: SandboxId): Kept
  /** Lets go of them all; they run on. */
  close(): Promise<void>
}

/** One that has just been started listens in a moment; on a host that is busy, in a few. */
const DIAL_MS = 5_000
const DIAL_PAUSE_MS = 20

const RECONCILE_EVERY_MS = 60_000

/** How long it is known of a sandbox that is gone why it went. */
const REMEMBER_MS = 7 * 24 * 3600 * 1000

export const openSandboxes = async (parts: SandboxesParts): Promise<Sandboxes> => {
  const { backend, installation, links, records, bridges, log, clock, policy, at } = parts
  const { db } = parts.store
  const rows = openRows(db, clock)
  const workspaces = openWorkspaces(db, clock)
  const decisions = openDecisions(db, clock)
  const wants = openWants({ ...parts, workspaces })
  const idle = new Idle(clock)
  const making = new Set<SandboxId>()
  const frozen = new Set<SandboxId>()
  const makingRoom = new Map<SandboxId, string>()
  const waiting = new Map<SandboxId, Set<() => void>>()
  const over = new AbortController()

  const leases = await openLeases({
    ...{ db, clock },
    onFree: (sandbox) => void freed(sandbox),
  })
  /** One that is wanted as it is need not be looked at until it has been idle for a while. */
  const freed = async (sandbox: SandboxId): Promise<void> => {
    idle.begin(sandbox)
    const isReady = (await rows.get(sandbox))?.phase === "ready"
    if (isReady && policy.pauseAfterMs !== null) workers.wakeIn(sandbox, policy.pauseAfterMs)
    else workers.wake(sandbox)
  }
  const onBootOver: KeepParts["onBootOver"] = async (sandbox, { readyAtMs, ending }) => {
    const row = await rows.get(sandbox)
    if (row === undefined) return
    if (readyAtMs !== null) {
      await workspaces.booted(row.workspace)
      await rows.move(sandbox, ["creating", "booting"], "ready")
    } else {
      const why = ending === null ? "it ended early" : `${ending.step ?? "boot"}: ${ending.reason}`
      await workspaces.bootFailed(row.workspace, row.configHash, why)
    }
    workers.wake(sandbox)
  }
  const keepers = openKeepers({ ...parts, onBootOver })
  const lives = openLives({
    ...{ clock, leases },
    ask: async (sandbox, change, signal) =>
      await bridges.activity(await linkOf(sandbox), change, signal),
  })
  const isAlive = async (sandbox: SandboxId) => {
    const state = (await backend.inspect(sandbox))?.state
    return state !== undefined && state !== "exited"
  }
  const files = openFiles(parts.layers, isAlive)
  const effects = openEffects({
    ...{ backend, rows, workspaces, wants, files, links, records, keepers, lives, log, at, frozen },
    onGone: (row) => {
      idle.forget(row.id)
      makingRoom.delete(row.id)
      for (const resolve of waiting.get(row.id) ?? []) resolve()
      waiting.delete(row.id)
    },
  })
  const { pause: canPause } = await backend.describe()
  const looking: LookParts = {
    ...{ backend, rows, leases, lives, decisions, effects, clock, log, policy, canPause },
    isBeingMade: (sandbox) => making.has(sandbox),
    idleMs: (sandbox) => idle.ms(sandbox),
    pressure: (sandbox) => makingRoom.get(sandbox),
    wantedHash: (row) => wants.known(row.workspace),
  }
  const workers = openWorkers({
    look: (sandbox) => look(looking, sandbox),
    onFailure: (sandbox, err, againInMs) =>
      log.warn({ op: "sandbox.look", sandbox, againInMs, err }, "is tried again"),
  })

  const linkOf = async (sandbox: SandboxId): Promise<SandboxLink> => {
    const link = keepers.get(sandbox)?.link ?? (await links.find(sandbox))
    if (link !== undefined) return link
    throw unknown(sandbox)
  }

  const gone = async (sandbox: SandboxId, signal: AbortSignal): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiters = waiting.get(sandbox) ?? new Set()
    waiting.set(sandbox, waiters.add(resolve))
    const onAbort = () => reject(signal.reason)
    signal.addEventListener("abort", onAbort)
    if (signal.aborted) onAbort()
    try {
      const row = await rows.get(sandbox)
      if (row === undefined || row.phase === "gone") return
      await promise
    } finally {
      signal.removeEventListener("abort", onAbort)
      waiters.delete(resolve)
    }
  }

  const make = ({ sandbox, spec, wanted, mode }: NewRow, signal: AbortSignal): Promise<void> => {
    const { slug: workspace } = spec
    return operation(log, "sandbox.create", { sandbox, workspace, mode }, async () => {
      const row = { id: sandbox, workspace, configHash: wanted.hash, mode }
      making.add(sandbox)
      lives.born(sandbox)
      try {
        if (!(await rows.insert({ ...row, phase: "creating" }))) throw notAlone(workspace)
        await at("create.inserted")
        const record = { workspace: spec, mode }
        await records.write(sandbox, record)
        const overlays = await files.claim(workspace, sandbox)
        await at("create.claimed")
        const launched = { sandbox, workspace, wanted, mode, overlays }
        const link = await launch(parts, launched, signal)
        await rows.move(sandbox, ["creating"], "booting")
        await at("create.booting")
        keepers.add(link, record, begunBoot(mode))
      } catch (thrown) {
        const why = thrown instanceof Error ? thrown.message : String(thrown)
        if (!signal.aborted) await workspaces.bootFailed(workspace, wanted.hash, why)
        await rows.beginStopRegardless(sandbox, { cause: "ended", reason: why })
        throw thrown
      } finally {
        making.delete(sandbox)
        workers.wake(sandbox)
      }
    })
  }

  const admit = async (): Promise<void> => {
    const shortage = await parts.shortage()
    if (shortage === undefined) return
    throw new BerthError("host.exhausted", `there is no room for another sandbox: ${shortage}`)
  }

  const ensure = openEnsure({
    ...{ rows, leases, workspaces, wants, admit, make, gone },
    wake: workers.wake,
    hasFailed: (sandbox) => {
      const boot = keepers.get(sandbox)?.boot
      return boot !== undefined && isBootOver(boot) && boot.readyAtMs === null
    },
  })

  const watch = async (): Promise<void> => {
    for await (const event of backend.watch(over.signal)) {
      if (event.kind === "resync") await wakeAll()
      else {
        if (event.kind === "exited") keepers.get(event.sandbox)?.exited()
        workers.wake(event.sandbox)
      }
    }
  }

  const wakeAll = async (): Promise<void> => {
    for (const sandbox of await everySandbox({ backend, rows })) workers.wake(sandbox)
  }

  const pass = async (): Promise<void> => {
    wants.refresh()
    await rows.forgetGone(REMEMBER_MS)
    await wakeAll()
  }

  const view = (
    row: SandboxRow | undefined,
    observed: ObservedSandbox | undefined,
    held: readonly Lease[],
  ): SandboxView => {
    const id = row?.id ?? observed?.identity.sandbox
    const boot = id && keepers.get(id)?.boot
    return {
      identity: identityOf(row, observed),
      phase: phaseOf(row, observed),
      createdAt: observed?.createdAt ?? new Date(row?.createdAtMs ?? 0).toISOString(),
      unheldLimits: [...(observed?.unheldLimits ?? [])],
      warnings: [],
      ...(observed?.exit && { exit: observed.exit }),
      ...{ boot: boot ?? null, leases: [...held] },
    }
  }
  const identityOf = (row: SandboxRow | undefined, observed: ObservedSandbox | undefined) => {
    if (observed !== undefined) return observed.identity
    if (row === undefined) throw new Error("a sandbox is known, or there")
    const { id: sandbox, workspace, configHash } = row
    return { installation, workspace, sandbox, configHash }
  }

  const need = (sandbox: SandboxId): Kept => {
    const kept = keepers.get(sandbox)
    if (kept !== undefined) return kept
    throw unknown(sandbox)
  }

  /** How one booted that is gone. */
  const leftBoot = async (sandbox: SandboxId, signal: AbortSignal) => {
    const link = await links.find(sandbox)
    return link && (await bridges.trace(link, signal).then(summaryOf, () => undefined))
  }

  /** A sandbox that does not answer is shown without its boot. */
  const readBoot = (kept: Kept, signal: AbortSignal) => kept.readBoot(signal).catch(() => {})

  const acquire = async (
    sandbox: SandboxId,
    claim: Claim,
    signal: AbortSignal,
  ): Promise<{ readonly sandbox: SandboxId; readonly lease: LeaseId }> => {
    for (let id = sandbox; ; ) {
      try {
        return {
          sandbox: id,
          lease: await leases.acquire({ ...claim, sandbox: id, isConnection: true }),
        }
      } catch (thrown) {
        if (!(thrown instanceof BerthError && thrown.code === "sandbox.ended")) throw thrown
        id = await successor(id, thrown, signal)
      }
    }
  }

  /** What takes the place of one that is not there to be used. */
  const successor = async (
    sandbox: SandboxId,
    refusal: BerthError,
    signal: AbortSignal,
  ): Promise<SandboxId> => {
    const row = await rows.get(sandbox)
    if (row === undefined) throw unknown(sandbox)
    if (row.phase === "quarantined" || (await workspaces.get(row.workspace)) === undefined)
      throw refusal
    const { sandbox: next, made } = await ensure(
      row.workspace,
      { mode: "fresh", isRequested: false },
      signal,
    )
    if (made) await booted(next, signal)
    return next
  }

  const booted = async (sandbox: SandboxId, signal: AbortSignal): Promise<void> => {
    const kept = need(sandbox)
    if (kept.boot === undefined) await readBoot(kept, signal)
    const fired = Promise.withResolvers<void>()
    const onAbort = () => fired.resolve()
    signal.addEventListener("abort", onAbort)
    if (signal.aborted) onAbort()
    try {
      await Promise.race([kept.booted().catch(() => {}), fired.promise])
    } finally {
      signal.removeEventListener("abort", onAbort)
    }
  }

  const dial = async (sandbox: SandboxId, signal: AbortSignal) => {
    const link = await linkOf(sandbox)
    for (let waitedMs = 0; ; waitedMs += DIAL_PAUSE_MS) {
      try {
        return { socket: await bridges.dial(link, signal), token: link.token }
      } catch (thrown) {
        const isEarly = thrown instanceof BerthError && thrown.code === "bridge.unreachable"
        if (!isEarly || waitedMs >= DIAL_MS) throw thrown
        const state = (await backend.inspect(sandbox, { signal }))?.state
        if (state === undefined || state === "exited") throw ended(sandbox, thrown)
        await pause(DIAL_PAUSE_MS, undefined, { signal })
      }
    }
  }

  /** Whoever is frozen in use is not any more when this resolves. */
  const thaw = async (sandbox: SandboxId): Promise<void> => {
    const { failure } = await workers.settle(sandbox)
    if (failure !== undefined) throw failure
  }

  const beginStop = async (sandbox: SandboxId, reason: string, force: boolean): Promise<void> => {
    const stop = { cause: "person" as const, reason }
    if (await (force ? rows.beginStopRegardless : rows.beginStop)(sandbox, stop)) return
    const held = await leases.of(sandbox)
    const row = await rows.get(sandbox)
    if (held.length > 0 && row?.phase !== "stopping" && row?.phase !== "gone")
      throw inUse(sandbox, held)
  }

  const end = async (sandbox: SandboxId, reason: string, force: boolean): Promise<SandboxRow> => {
    let row = await rows.get(sandbox)
    if (row === undefined) {
      // One that the store does not know is looked at first.
      await workers.settle(sandbox)
      row = await rows.get(sandbox)
    }
    if (row === undefined) throw unknown(sandbox)
    await beginStop(sandbox, reason, force)
    const { failure } = await workers.settle(sandbox)
    if (failure !== undefined) throw failure
    return row
  }

  let watching: Promise<void> | undefined
  let passing: NodeJS.Timeout | undefined

  return {
    adopt: (signal) =>
      operation(log, "sandboxes.adopt", {}, async (note) => {
        watching = watch().catch((err) => log.error({ op: "sandboxes.watch", err }, "not watched"))
        const found = await backend.list({ signal })
        const known = new Map((await rows.list()).map((row) => [row.id, row]))
        const live = found.filter(({ identity }) => {
          const phase = known.get(identity.sandbox)?.phase
          return phase !== undefined && phase !== "quarantined" && phase !== "stopping"
        })
        // One that cannot be taken up is seen by its worker; the others go on.
        const taken = await Promise.allSettled(
          live.map(async ({ identity: { sandbox }, state }) => {
            const kept = await keepers.takeUp(sandbox)
            if (state === "exited") kept?.exited()
            if (state === "paused") frozen.add(sandbox)
          }),
        )
        const shown = (await rows.listShown()).map(({ id }) => id)
        const here = new Set([...shown, ...found.map(({ identity }) => identity.sandbox)])
        const gone = (await links.list()).filter((sandbox) => !here.has(sandbox))
        for (const sandbox of gone) await links.remove(sandbox)
        note({ sandboxes: live.length, found: found.length, linksRemoved: gone.length })
        const failed = taken.find(({ status }) => status === "rejected")
        if (failed?.status === "rejected")
          log.warn({ op: "sandboxes.adopt", err: failed.reason }, "a sandbox is not taken up")
        if (known.size > 0) void parts.toolbox().then(pass, () => {})
        void wakeAll()
        passing = setInterval(() => void pass(), RECONCILE_EVERY_MS).unref()
      }),

    up: async (workspace, mode, signal) => {
      await workspaces.put(workspace)
      wants.refresh()
      return await ensure(workspace.slug, { mode, isRequested: true }, signal)
    },

    list: async (signal) => {
      const [known, found, held] = await Promise.all([
        rows.listShown(),
        backend.list({ signal }),
        leases.all(),
      ])
      const observed = new Map(found.map((each) => [each.identity.sandbox, each]))
      const ids = new Set(known.map(({ id }) => id))
      return [
        ...known.map((row) => view(row, observed.get(row.id), held.get(row.id) ?? [])),
        ...found
          .filter(({ identity }) => !ids.has(identity.sandbox))
          .map((each) => view(undefined, each, [])),
      ].sort((one, other) => (one.createdAt < other.createdAt ? -1 : 1))
    },

    get: async (sandbox, signal) => {
      const kept = keepers.get(sandbox)
      if (kept !== undefined && kept.boot === undefined) await readBoot(kept, signal)
      const boot = kept?.boot ?? (await leftBoot(sandbox, signal))
      const [row, observed, held] = await Promise.all([
        rows.get(sandbox),
        backend.inspect(sandbox, { signal }),
        leases.of(sandbox),
      ])
      if (row === undefined && observed === undefined) throw unknown(sandbox)
      return { ...view(row, observed, held), boot: boot ?? null }
    },

    why: async (sandbox) => {
      const [row, observed] = await Promise.all([rows.get(sandbox), backend.inspect(sandbox)])
      const said = await decisions.of(sandbox)
      if (row === undefined && observed === undefined && said.length === 0) throw unknown(sandbox)
      return {
        ...{ sandbox, workspace: row?.workspace ?? observed?.identity.workspace ?? null },
        phase: phaseOf(row, observed),
        ...{ leases: await leases.of(sandbox), decisions: said },
      }
    },

    booted,

    use: async (sandbox, claim, signal) => {
      const { sandbox: used, lease } = await acquire(sandbox, claim, signal)
      let current = lease
      const end = () => leases.release(current)
      try {
        if (frozen.has(used)) await thaw(used)
      } catch (thrown) {
        await end()
        throw thrown
      }
      return {
        sandbox: used,
        dial: (until) => dial(used, until),
        renew: () => {
          if (claim.ttlMs === undefined || leases.renew(current)) return
          void leases.acquire({ ...claim, sandbox: used, isConnection: true }).then(
            (again) => {
              current = again
            },
            () => {},
          )
        },
        leave: () => lives.look(used),
        end,
      }
    },

    hold: async (sandbox, holder, forMs) => {
      const request = { sandbox, kind: "hold" as const, holder }
      const id = await leases.acquire({ ...request, ...(forMs !== undefined && { ttlMs: forMs }) })
      const lease = (await leases.of(sandbox)).find((each) => each.id === id)
      if (lease === undefined) throw unknown(sandbox)
      return lease
    },

    release: async (sandbox, lease) => {
      const held = (await leases.of(sandbox)).find(({ id }) => id === lease)
      if (held?.kind !== "hold")
        throw new BerthError("not_found", `nobody holds ${sandbox} by ${lease}`)
      await leases.release(lease)
    },

    stop: async (sandbox, { force }) => {
      await end(sandbox, "a person stopped it", force)
    },

    remove: async (sandbox, { force }) => {
      const { workspace } = await end(sandbox, "a person removed it", force)
      if ((await rows.ofWorkspace(workspace)).length > 0) return
      await workspaces.remove(workspace)
      await files.remove(workspace)
      for (const gone of await rows.goneOf(workspace)) await links.remove(gone)
    },

    reconcile: async ({ dryRun }) => {
      wants.refresh()
      return await reconcile({ backend, rows, workers, looking }, { dryRun })
    },

    trace: async (sandbox, signal) => bridges.trace(await linkOf(sandbox), signal),

    stateOf: async (sandbox) => {
      const state = (await backend.inspect(sandbox))?.state
      if (state === "paused") workers.wake(sandbox)
      return state
    },

    kept: need,

    close: async () => {
      over.abort()
      clearInterval(passing)
      lives.close()
      leases.close()
      await workers.close()
      await keepers.close()
      await watching
    },
  }
}

const phaseOf = (
  row: SandboxRow | undefined,
  observed: ObservedSandbox | undefined,
): SandboxPhase => {
  if (row === undefined) return "quarantined"
  const isFrozen = observed?.state === "paused" && row.phase === "ready"
  return isFrozen ? "paused" : row.phase
}

const ended = (sandbox: SandboxId, cause: unknown): BerthError =>
  new BerthError("backend.unknown_sandbox", `${sandbox} has ended`, { details: { sandbox }, cause })

const unknown = (sandbox: SandboxId): BerthError =>
  new BerthError("not_found", `there is no sandbox ${sandbox}`, { details: { sandbox } })

const notAlone = (workspace: Slug): BerthError =>
  new BerthError("backend.conflict", `${workspace} has a sandbox already`, {
    details: { workspace },
  })

const inUse = (sandbox: SandboxId, held: readonly Lease[]): BerthError => {
  const users = held.map(({ kind, holder }) => `${kind} of ${holder}`)
  return new BerthError("sandbox.in_use", `${sandbox} is used by ${users.join(", ")}`, {
    details: { sandbox, users },
  })
}
