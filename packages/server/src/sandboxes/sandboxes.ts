import { Readable } from "node:stream"
import { isDeepStrictEqual } from "node:util"
import type { BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId, Slug } from "@berth/protocol/ids"
import type { LeaseSource } from "@berth/protocol/lease"
import type { ReconcileReport } from "@berth/protocol/sandboxes"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { EngineState, ObservedSandbox } from "../backends/backend.ts"
import { openHostCertificates } from "../certificates/host-certificates.ts"
import type { Reserve } from "../host/reserve.ts"
import { serialByKey } from "../host/serial.ts"
import type { Layers } from "../layers/layers.ts"
import { operation } from "../logging/operation.ts"
import type { Store } from "../store/open.ts"
import { isBootOver } from "./boot-summary.ts"
import type { Bridges } from "./bridges.ts"
import type { Clock } from "./clock.ts"
import type { Policy } from "./decide.ts"
import { openDecisions } from "./decisions.ts"
import { Departures } from "./departures.ts"
import { type Guard, NO_GUARD, openGuard } from "./disk/guard.ts"
import { openMeter } from "./disk/meter.ts"
import { openRemembered } from "./disk/remembered.ts"
import { NO_RESCUE, type Rescue } from "./disk/rescue.ts"
import { RESPITE_MS } from "./disk/respites.ts"
import { measurePatiently, measureUsage, type UsageParts } from "./disk/usage.ts"
import { openEffects } from "./effects.ts"
import { openEngineFiles } from "./engine-files.ts"
import { type Ensured, type EnsureOptions, openEnsure } from "./ensure.ts"
import { openFiles } from "./files.ts"
import { filesLeft, openFilesLeft } from "./files-left.ts"
import { openFlattening } from "./flattening.ts"
import { type ForkCall, openFork } from "./fork.ts"
import { openFreezing } from "./freezing.ts"
import { type GivingUp, openGiveUp } from "./give-up.ts"
import { Idle } from "./idle.ts"
import { openKeepers } from "./keepers.ts"
import type { KeepParts, Kept } from "./kept.ts"
import type { LaunchParts } from "./launch.ts"
import { openLeases } from "./leases.ts"
import { openLeftFiles } from "./left-files.ts"
import type { Links, SandboxLink } from "./links.ts"
import { openLives } from "./lives.ts"
import { type LookParts, look } from "./look.ts"
import { openMake } from "./make.ts"
import { type Names, openNames } from "./names.ts"
import { openNewcomers } from "./newcomers.ts"
import { otherRepo, otherRepoError } from "./other-repo.ts"
import { openPressure } from "./pressure.ts"
import { everySandbox, reconcile } from "./reconcile.ts"
import type { Records } from "./records.ts"
import { openRequests, type Requests } from "./requests.ts"
import { requireHeld } from "./require-held.ts"
import { openRequireModel } from "./require-model.ts"
import { isCurrentPhase, openRows, USABLE_PHASES } from "./rows.ts"
import type { Shortage } from "./shortage.ts"
import { removeOldLinks, takeUp } from "./take-up.ts"
import { openTransfer, type Transfer } from "./transfer.ts"
import { unknownSandbox, unknownWorkspace } from "./unknown.ts"
import { openUses, type Uses } from "./use.ts"
import { openValidate } from "./validate.ts"
import { openViews, type Views } from "./views.ts"
import { openWants, type ToolboxOf, type WantedParts } from "./wanted.ts"
import { openWorkers } from "./workers.ts"
import { openWorkspaces } from "./workspaces.ts"

export interface SandboxesParts
  extends Omit<KeepParts, "onBootOver" | "onDown" | "onUp">,
    LaunchParts {
  readonly records: Records
  readonly store: Pick<Store, "db">
  readonly layers: Layers
  readonly bridges: Bridges
  /** The toolbox that new sandboxes get: found or built when the first is made. */
  readonly toolbox: ToolboxOf
  readonly policy: Policy
  readonly clock: Clock
  /** The authorities that the host trusts beside the usual ones. Default: as its files say. */
  readonly certificates?: WantedParts["certificates"]
  /** What of the host runs low. */
  readonly shortage: Shortage
  /** The guard that keeps sandboxes from filling the disk, where that is watched. */
  readonly disk?: DiskParts
}

export interface DiskParts {
  readonly dataDir: string
  readonly reserve: Reserve
  readonly rescue: Rescue
  /** The disk limit of a workspace that sets none; undefined: no limit. */
  readonly defaultBytes?: number | undefined
}

export interface Forked extends Ensured {
  /** How long the sandbox whose files were copied stood still. */
  readonly frozenMs: number
}

export type UpOptions = Omit<EnsureOptions, "isRequested"> & DescribeOptions

export interface DescribeOptions {
  /**
   * Removes the workspace of that name first if it is for another repo, and files of that name that no workspace owns.
   * Default: refused.
   */
  readonly replace?: boolean
  /** Whether a prompt follows: a new workspace whose agent lacks a model is refused. */
  readonly isPrompted?: boolean
}

/**
 * The sandboxes of an installation. They outlive the server that made them, and nobody who uses one is cut off. A
 * request for a workspace's earlier sandbox, by its id, goes to the current one.
 */
export interface Sandboxes
  extends Views,
    Omit<Requests, "stop" | "remove" | "replaceWorkspace">,
    Uses {
  readonly names: Names
  /** Stops a sandbox. Returns the one that was stopped. */
  stop(...call: Parameters<Requests["stop"]>): Promise<SandboxId>
  /** Removes a sandbox. Returns the one that was removed. */
  remove(...call: Parameters<Requests["remove"]>): Promise<SandboxId>
  /** Takes up the sandboxes that run already, and reconciles from then on. Called once, before anything else. */
  adopt(signal: AbortSignal): Promise<void>
  /** Gives the current sandbox of a workspace, as it is described here. Resolves when it has started; it boots on. */
  up(workspace: WorkspaceSpec, options: UpOptions, signal: AbortSignal): Promise<Ensured>
  /** Makes another workspace like this sandbox's, on a copy of its files, with a sandbox of its own. */
  fork(sandbox: SandboxId, to: Slug, call: ForkCall): Promise<Forked>
  exportTo: Transfer["exportTo"]
  /** Makes a workspace on an archive's files, with a sandbox. Resolves when it has started; it boots on. */
  importFrom(...call: Parameters<Transfer["importFrom"]>): Promise<Ensured>
  /**
   * Lets a halted sandbox go on for a while, so that a person can delete files in it. All its processes but the
   * supervisor are ended. Fails if it is not halted.
   */
  makeRoom(sandbox: SandboxId): Promise<void>
  /** Resolves when the sandbox is ready or never will be, or the signal fires. */
  booted(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  /** Describes a workspace; its sandbox is made when it is used. If it is refused, nothing is changed. */
  describe(workspace: WorkspaceSpec, options: DescribeOptions, signal: AbortSignal): Promise<void>
  /** Fails if there is no such workspace. */
  workspace(slug: Slug): Promise<WorkspaceSpec>
  /** Writes a file into the sandbox, for its user. */
  putFile(sandbox: SandboxId, path: string, content: Buffer, signal: AbortSignal): Promise<void>
  /** The sandbox that has a lease of these sources for a subject: the latest one. */
  usedFor(sources: readonly LeaseSource[], subject: string): Promise<SandboxId | undefined>
  /** Ends the leases of these sources whose subject is over. */
  endUses(
    sources: readonly LeaseSource[],
    isOver: (subject: string | null) => boolean,
  ): Promise<void>
  /** Ends a sandbox that does not answer to a person, unless others use it or it is halted. Returns why it stays. */
  giveUp(sandbox: SandboxId, givingUp: GivingUp): Promise<string | undefined>
  /** Why a sandbox is halted, if it is, be it for a moment. */
  haltOf(sandbox: SandboxId): string | undefined
  /** Resolves when the store has the sandbox as gone, and all its events are stored. Rejects when the signal fires. */
  gone(sandbox: SandboxId, signal: AbortSignal): Promise<void>
  reconcile(options: { dryRun: boolean }): Promise<ReconcileReport>
  trace(sandbox: SandboxId, signal: AbortSignal): Promise<BootTrace>
  /** The engine's state of a sandbox; undefined: it has none. A sandbox that is paused in use is woken. */
  stateOf(sandbox: SandboxId): Promise<EngineState | undefined>
  kept(sandbox: SandboxId): Kept
  /** Closes all connections; the sandboxes run on. */
  close(): Promise<void>
}

const RECONCILE_EVERY_MS = 60_000

/** How long the store remembers why a sandbox is gone. */
const REMEMBER_MS = 7 * 24 * 3600 * 1000

/** The subject of the hold that a person's make-room has. */
const MAKING_ROOM = "make-room"

export const openSandboxes = async (parts: SandboxesParts): Promise<Sandboxes> => {
  const { backend, installation, records, bridges, log, clock, policy, at } = parts
  const links: Links = {
    ...parts.links,
    remove: async (sandbox) => {
      const err = await parts.links.remove(sandbox)
      if (err !== undefined)
        log.warn({ op: "link.remove", sandbox, err }, "the link of a sandbox cannot be removed")
      return err
    },
  }
  const { db } = parts.store
  const rows = openRows(db, clock)
  const workspaces = openWorkspaces(db, clock)
  const decisions = openDecisions(db, clock)
  const certificates = parts.certificates ?? openHostCertificates(parts)
  const wants = openWants({ ...parts, workspaces, certificates })
  const departures = new Departures(rows)
  const idle = new Idle(clock)
  const serially = serialByKey()
  const making = new Set<SandboxId>()
  const copying = new Set<SandboxId>()
  const frozen = new Set<SandboxId>()
  const makingRoom = new Map<SandboxId, string>()
  /** The stale sandboxes whose successor a person has asked for. */
  const succeeded = new Set<SandboxId>()
  const over = new AbortController()
  const rescue = parts.disk?.rescue ?? NO_RESCUE
  let guard: Guard = NO_GUARD
  const held = (sandbox: SandboxId) => guard.held(sandbox)
  const haltOf = (sandbox: SandboxId) => guard.why(sandbox)

  /** The next pass looks at the sandbox. */
  const notFreed = (err: unknown) =>
    log.warn(
      { op: "lease.release", err },
      "a freed sandbox cannot be looked at; the next pass does",
    )
  /** Notes that a sandbox is free. One that is ready need not be looked at until it has been idle for a while. */
  const freed = async (sandbox: SandboxId): Promise<void> => {
    idle.begin(sandbox)
    const isReady = (await rows.get(sandbox))?.phase === "ready"
    if (isReady && policy.pauseAfterMs !== null) workers.wakeIn(sandbox, policy.pauseAfterMs)
    else workers.wake(sandbox)
  }
  const leases = await openLeases({
    db,
    clock,
    onFree: (sandbox) => void freed(sandbox).catch(notFreed),
  })

  const onBootOver: KeepParts["onBootOver"] = async (sandbox, { readyAtMs, ending }) => {
    idle.begin(sandbox)
    const row = await rows.get(sandbox)
    if (row === undefined) return
    if (readyAtMs !== null) {
      await workspaces.booted(row.workspace)
      await rows.move(sandbox, ["creating", "booting"], "ready")
    } else if (row.phase !== "stopping" && row.phase !== "gone") {
      const why = ending === null ? "it ended early" : `${ending.step ?? "boot"}: ${ending.reason}`
      await workspaces.bootFailed(row.workspace, row.configHash, why)
      // A sandbox that was asked to stop is about to exit; one in which a step failed stays up.
      if (ending !== null && ending.step !== null)
        await rows.move(sandbox, ["creating", "booting", "draining"], "failed")
    }
    workers.wake(sandbox)
  }
  const keepers = openKeepers({
    ...parts,
    onBootOver,
    onDown: (sandbox) => workers.wake(sandbox),
    // Asked at once, not at the next look: a prompt that was stopped while the sandbox was not reached goes on in it.
    onUp: (sandbox) => {
      if (lives.of(sandbox).kind !== "none")
        void lives.ask(sandbox).then(() => workers.wake(sandbox))
    },
  })
  const isBooting = (sandbox: SandboxId): boolean => {
    const boot = keepers.get(sandbox)?.boot
    return boot !== undefined && !isBootOver(boot)
  }
  const linkOf = async (sandbox: SandboxId): Promise<SandboxLink> => {
    const link = keepers.get(sandbox)?.link ?? (await links.find(sandbox))
    if (link !== undefined) return link
    throw unknownSandbox(sandbox)
  }
  const lives = openLives({
    clock,
    leases,
    ask: async (sandbox, change, signal) =>
      await bridges.activity(await linkOf(sandbox), change, signal),
    onPrompts: (sandbox, prompts) => void stopAgain(sandbox, prompts).catch(() => {}),
  })
  /**
   * Stops prompts again that ended in the store while their sandbox was not reached. A failure is tried again at the
   * next answer.
   */
  const stopAgain = async (sandbox: SandboxId, prompts: readonly PromptId[]): Promise<void> => {
    for (const prompt of await parts.events.ended(prompts))
      await keepers.get(sandbox)?.stopPrompt(prompt)
  }
  const isAlive = async (sandbox: SandboxId): Promise<boolean> => {
    const state = (await backend.inspect(sandbox))?.state
    return state !== undefined && state !== "exited"
  }
  const flattening = openFlattening(parts)
  const { pause: canPause, networks, layers: hasLayers } = await backend.describe()
  const filesHere = openFiles({ store: parts.layers, isAlive, flattening, at })
  const files = hasLayers ? filesHere : openEngineFiles(backend, filesHere)

  const effects = openEffects({
    backend,
    rows,
    workspaces,
    wants,
    files,
    links,
    records,
    keepers,
    lives,
    log,
    at,
    frozen,
    events: parts.events,
    bridges,
    rescue,
    isHeld: (sandbox) => held(sandbox) !== undefined,
    onGone: ({ id, workspace, stop }) => {
      idle.forget(id)
      makingRoom.delete(id)
      succeeded.delete(id)
      departures.tell(id)
      if (stop?.cause === "drained") void replace(workspace)
    },
  })
  const looking: LookParts = {
    backend,
    rows,
    leases,
    lives,
    decisions,
    effects,
    clock,
    log,
    policy,
    canPause,
    at,
    isBooting,
    isBeingMade: (sandbox) => making.has(sandbox),
    // The time of a boot does not count as idle: nobody can use the sandbox before.
    idleMs: (sandbox) => (isBooting(sandbox) ? 0 : idle.ms(sandbox)),
    pressure: (sandbox) => makingRoom.get(sandbox),
    halted: haltOf,
    wantedHash: (row) => wants.known(row.workspace),
    bootFailure: async ({ workspace }) => (await workspaces.get(workspace))?.failed?.why,
    isSuccessorAsked: async ({ id, workspace }) => {
      if (succeeded.has(id)) return true
      const [made, wanted] = await Promise.all([
        records.read(id).catch(() => undefined),
        workspaces.get(workspace),
      ])
      return made !== undefined && !isDeepStrictEqual(made.workspace, wanted?.spec)
    },
  }
  const workers = openWorkers({
    look: (sandbox, before) => look(looking, sandbox, before),
    onFailure: (sandbox, err, againInMs) =>
      log.warn(
        { op: "sandbox.look", sandbox, againInMs, err },
        "looking at a sandbox failed; retrying",
      ),
  })

  if (parts.disk !== undefined) {
    const { dataDir, defaultBytes } = parts.disk
    const usage: UsageParts = {
      dataDir,
      caches: () => backend.listCaches(),
      pidsOf: rescue.pidsOf,
    }
    const remembered = openRemembered(dataDir)
    const meter = openMeter({
      remembered: await remembered.read(),
      save: remembered.save,
      measure: (sandboxes, signal) => measurePatiently(usage, sandboxes, signal),
      onMeasured: () => void guard.look(),
      clock,
      log,
    })
    guard = openGuard({
      ...parts.disk,
      meter,
      clock,
      log,
      copying,
      wake: workers.wake,
      bounded: async () => {
        const [known, limits] = await Promise.all([rows.list(), workspaces.diskLimits()])
        return known
          .filter(({ phase }) => USABLE_PHASES.some((usable) => usable === phase))
          .map(({ id: sandbox, workspace }) => {
            const { diskBytes: bytes = defaultBytes, diskInodes: inodes } =
              limits.get(workspace) ?? {}
            return { sandbox, workspace, allowance: { bytes, inodes } }
          })
      },
      list: async () => (await backend.list()).filter(({ state }) => hasProcesses(state)),
      isThere: async (sandbox) => (await backend.inspect(sandbox)) !== undefined,
      measure: (sandboxes, what, signal) => measureUsage(usage, sandboxes, what, signal),
      tell: (sandbox, message) => parts.events.tell(sandbox, [{ type: "warning", message }]),
    })
  }
  const pressure = openPressure({
    shortage: parts.shortage,
    layers: parts.layers,
    backend,
    log,
    rows,
    leases,
    idle,
    workers,
    makingRoom,
  })
  const ensure = openEnsure({
    rows,
    leases,
    workspaces,
    wants,
    serially,
    admit: pressure.admit,
    wake: workers.wake,
    settle: workers.settle,
    askSuccessor: (sandbox) => succeeded.add(sandbox),
    make: openMake({
      backend,
      links,
      installation,
      at,
      rows,
      workspaces,
      records,
      files,
      keepers,
      lives,
      workers,
      log,
      making,
    }),
    gone: (sandbox, signal) => departures.of(sandbox, signal),
    whyNotGone: decisions.failureOf,
    isBooting,
    hasFailed: (sandbox) => {
      const boot = keepers.get(sandbox)?.boot
      return boot !== undefined && isBootOver(boot) && boot.readyAtMs === null
    },
  })

  /** Makes the successor of a drained sandbox, so that those who used the workspace find it there. */
  const replace = async (workspace: Slug): Promise<void> => {
    try {
      await ensure(workspace, { mode: "fresh", isRequested: false }, over.signal)
    } catch (err) {
      if (!over.signal.aborted)
        log.warn(
          { op: "sandbox.replace", workspace, err },
          "a drained sandbox cannot be replaced now; its successor is made at the next use",
        )
    }
  }

  const { areLeft, assertUnused } = openFilesLeft({ files, backend, rows, workspaces })
  const newcomers = openNewcomers({ workspaces, files, rows, assertUnused, log, at, serially })
  const { removeUnfinished } = newcomers
  const sweepLeftFiles = openLeftFiles({
    layers: parts.layers,
    backend,
    rows,
    workspaces,
    files: filesHere,
    serially,
    clock,
    log,
    keepMs: policy.quarantineMs,
  })
  const freeze = openFreezing({
    backend,
    leases,
    files,
    making,
    copying,
    held,
    wake: workers.wake,
    onThaw: () => void guard.look().catch(() => {}),
  })
  const fork = openFork({ rows, workspaces, files, freeze, newcomers, log })
  /**
   * Makes the first sandbox of a fork or an import. If that fails (a person cancels it, or its image cannot be had),
   * nothing of the workspace is left.
   */
  const ensureFirst = async (workspace: Slug, signal: AbortSignal): Promise<Ensured> => {
    try {
      return await ensure(workspace, { mode: "fresh", isRequested: true }, signal)
    } catch (thrown) {
      await newcomers.removeUnused(workspace).catch(notPassed)
      throw thrown
    }
  }
  const { shortage } = parts
  const transfer = openTransfer({
    rows,
    workspaces,
    files,
    freeze,
    newcomers,
    shortage,
    areLeft,
    log,
  })

  const kept = (sandbox: SandboxId): Kept => {
    const found = keepers.get(sandbox)
    if (found !== undefined) return found
    throw unknownSandbox(sandbox)
  }
  const booted = async (sandbox: SandboxId, signal: AbortSignal): Promise<void> => {
    const fired = Promise.withResolvers<void>()
    const onAbort = () => fired.resolve()
    signal.addEventListener("abort", onAbort)
    if (signal.aborted) onAbort()
    try {
      await Promise.race([
        kept(sandbox)
          .booted(signal)
          .catch(() => {}),
        fired.promise,
      ])
    } finally {
      signal.removeEventListener("abort", onAbort)
    }
  }

  const requireModel = openRequireModel({ backend })
  const validate = openValidate({ backend, networks, keys: parts.keys, apiPort: parts.apiPort })
  const removeLeft = (workspace: Slug): Promise<void> =>
    serially(workspace, async () => {
      // A concurrent request may have made the workspace since.
      if (await areLeft(workspace)) await files.remove(workspace)
    })
  const describe: Sandboxes["describe"] = async (spec, options, signal) => {
    const { replace = false, isPrompted = false } = options
    const known = (await workspaces.get(spec.slug))?.spec
    if (isDeepStrictEqual(known, spec)) return wants.refresh()
    const isOnLeftFiles = known === undefined && (await areLeft(spec.slug))
    if (isOnLeftFiles && !replace) throw filesLeft(spec.slug)
    const other = known && otherRepo(known, spec)
    if (other !== undefined && !replace) throw otherRepoError(spec, other)
    requireHeld(spec.agent)
    const before = other === undefined ? known : undefined
    await validate(spec, before, signal)
    // The files of a workspace that there is already may bring a model.
    if (isPrompted && before === undefined) await requireModel(spec, signal)
    if (isOnLeftFiles) await removeLeft(spec.slug)
    // A concurrent request may have described the workspace since it was read.
    const refusal = await workspaces.put(spec)
    if (refusal !== undefined && !replace) throw otherRepoError(spec, refusal)
    if (refusal !== undefined) await requests.replaceWorkspace(spec)
    wants.refresh()
    // A halted sandbox may have a higher limit now.
    if (guard.isHolding) await guard.look()
  }

  const unwatched = (err: unknown) =>
    log.error({ op: "sandboxes.watch", err }, "the engine's events cannot be watched any more")
  const notPassed = (err: unknown) =>
    log.warn({ op: "sandboxes.pass", err }, "a reconcile pass failed; the next one tries again")
  const wakeAll = async (seen?: readonly ObservedSandbox[]): Promise<void> => {
    for (const sandbox of await everySandbox({ backend, rows }, seen)) workers.wake(sandbox)
  }
  const pass = async (): Promise<void> => {
    wants.refresh()
    await rows.forgetGone(REMEMBER_MS)
    await removeUnfinished().catch(notPassed)
    await sweepLeftFiles().catch(notPassed)
    await wakeAll()
  }
  const watch = async (): Promise<void> => {
    for await (const event of backend.watch(over.signal)) {
      if (event.kind === "resync") await wakeAll().catch(notPassed)
      else {
        if (event.kind === "exited") keepers.get(event.sandbox)?.exited()
        workers.wake(event.sandbox)
      }
    }
  }
  let watching: Promise<void> | undefined
  let passing: NodeJS.Timeout | undefined

  const views = openViews({
    installation,
    backend,
    rows,
    leases,
    decisions,
    keepers,
    links,
    bridges,
    held,
  })
  const uses = openUses({
    backend,
    bridges,
    rows,
    workspaces,
    leases,
    lives,
    workers,
    ensure,
    frozen,
    held,
    linkOf,
    booted,
    bootOf: (sandbox) => keepers.get(sandbox)?.boot,
  })
  const names = openNames({
    rows,
    backend,
    start: async (workspace, signal) => {
      const ensured = await ensure(workspace, { mode: "fresh", isRequested: false }, signal)
      if (ensured.made) await booted(ensured.sandbox, signal)
      return ensured.sandbox
    },
  })
  const requests = openRequests({
    backend,
    rows,
    workspaces,
    records,
    leases,
    workers,
    files,
    links,
    serially,
    lease: uses.lease,
    closeSessions: parts.events.closeSessions,
    bootOf: async (sandbox) => (await views.get(sandbox, over.signal)).boot,
    at,
  })

  const makeRoom = async (sandbox: SandboxId): Promise<void> => {
    const row = await rows.get(sandbox)
    if (row === undefined) throw unknownSandbox(sandbox)
    if (held(sandbox) === undefined)
      throw new BerthError("sandbox.not_halted", `${sandbox} is not halted`, {
        details: { sandbox },
      })
    // The lease keeps the sandbox from being stopped when everything in it ends.
    const [before] = (await leases.by(["person"], MAKING_ROOM)).filter(
      (lease) => lease.sandbox === sandbox,
    )
    const lease =
      before?.id ??
      (await leases.acquire({
        sandbox,
        kind: "hold",
        source: "person",
        subject: MAKING_ROOM,
        // The lease keeps the sandbox from what Berth does by itself, and gives way to a person's stop.
        yields: true,
        holder: "a person who makes room in it",
        ttlMs: RESPITE_MS,
      }))
    try {
      await guard.relent({ sandbox, workspace: row.workspace })
    } catch (thrown) {
      await leases.release(lease)
      throw thrown
    }
  }

  return {
    names,
    list: views.list,
    get: async (sandbox, signal) => await views.get(await names.current(sandbox), signal),
    why: async (sandbox) => {
      const why = await views.why(await names.current(sandbox))
      if (why.sandbox === sandbox) return why
      return { ...why, earlier: { sandbox, decisions: (await views.why(sandbox)).decisions } }
    },
    hold: requests.hold,
    release: async (sandbox, lease) => {
      await requests.release(await names.current(sandbox), lease)
    },
    adoptQuarantined: async (sandbox) => {
      await requests.adoptQuarantined(await names.current(sandbox))
    },
    // Operations that free room have to work on a full disk.
    stop: async (asked, options) => {
      const sandbox = await names.current(asked)
      await rescue.run(() => requests.stop(sandbox, options))
      return sandbox
    },
    remove: async (asked, options) => {
      const sandbox = await names.current(asked)
      await rescue.run(() => requests.remove(sandbox, options))
      return sandbox
    },
    removeWorkspace: (workspace) => rescue.run(() => requests.removeWorkspace(workspace)),
    makeRoom: async (asked) => {
      const sandbox = await names.current(asked)
      await rescue.run(() => makeRoom(sandbox))
    },

    adopt: (signal) =>
      operation(log, "sandboxes.adopt", {}, async (note) => {
        watching = watch().catch(unwatched)
        const found = await backend.list({ signal })
        const there = { found, rows, links, keepers, frozen, log }
        const sandboxes = await takeUp(there)
        note({ found: found.length, sandboxes, linksRemoved: await removeOldLinks(there) })
        // Unfinished forks and imports go before anybody can ask for a workspace of their name.
        await removeUnfinished().catch(notPassed)
        await guard.watch()
        void wakeAll(found).catch(notPassed)
        void sweepLeftFiles().catch(notPassed)
        // The wanted configs of the known sandboxes depend on the toolbox, which may have to be built.
        const lookAgain = async () => {
          wants.refresh()
          await wakeAll(found)
        }
        if (sandboxes > 0) void wants.prepare().then(lookAgain).catch(notPassed)
        passing = setInterval(() => void pass().catch(notPassed), RECONCILE_EVERY_MS).unref()
        pressure.watch()
      }),

    up: async (workspace, { replace = false, ...options }, signal) => {
      // A sandbox that there is no room for is refused before anything is changed for it.
      if ((await rows.ofWorkspace(workspace.slug)).length === 0) await pressure.admit()
      await describe(workspace, { replace }, signal)
      for (;;) {
        const ensured = await ensure(workspace.slug, { ...options, isRequested: true }, signal)
        // The idle time begins anew, so that the sandbox is not stopped before its caller uses it.
        idle.begin(ensured.sandbox)
        const row = await rows.get(ensured.sandbox)
        if (ensured.made || (row !== undefined && isCurrentPhase(row.phase))) return ensured
      }
    },

    fork: async (asked, to, call) => {
      // A fork that there is no room for is refused before anything is copied.
      await pressure.admit()
      const frozenMs = await fork(await names.current(asked), to, call)
      call.onProgress({ stage: "starting", files: 0, of: 0 })
      return { ...(await ensureFirst(to, call.signal)), frozenMs }
    },

    exportTo: transfer.exportTo,

    importFrom: async (workspace, from, signal) => {
      // An import that there is no room for is refused before anything is read.
      await pressure.admit()
      await transfer.importFrom(workspace, from, signal)
      return await ensureFirst(workspace, signal)
    },

    booted: async (sandbox, signal) => await booted(await names.current(sandbox), signal),

    ...uses,

    describe,

    workspace: async (slug) => {
      const found = await workspaces.get(slug)
      if (found !== undefined) return found.spec
      throw unknownWorkspace(slug)
    },

    putFile: async (sandbox, path, content, signal) => {
      const query = new URLSearchParams({ path, parents: "true" })
      const body = Readable.from([content])
      await bridges.put(await linkOf(sandbox), `/files/content?${query}`, body, signal)
    },

    usedFor: async (sources, subject) => (await leases.by(sources, subject)).at(-1)?.sandbox,

    endUses: async (sources, isOver) => {
      for (const { id, subject } of await leases.by(sources))
        if (isOver(subject)) await leases.release(id)
    },

    giveUp: openGiveUp({ rows, haltOf, wake: workers.wake }),

    haltOf,

    gone: (sandbox, signal) => departures.of(sandbox, signal),

    reconcile: async ({ dryRun }) => {
      await wants.prepare()
      wants.refresh()
      return await reconcile({ backend, rows, workers, looking }, { dryRun })
    },

    trace: async (sandbox, signal) =>
      bridges.trace(await linkOf(await names.current(sandbox)), signal),

    stateOf: async (sandbox) => {
      const state = (await backend.inspect(sandbox))?.state
      if (state === "paused") workers.wake(sandbox)
      return state
    },

    kept,

    close: async () => {
      over.abort()
      clearInterval(passing)
      lives.close()
      leases.close()
      // Callers that wait for a sandbox to settle end with the workers.
      await Promise.all([workers.close(), pressure.close(), guard.close(), flattening.close()])
      await keepers.close()
      await watching
    },
  }
}

const hasProcesses = (state: EngineState): boolean => state === "running" || state === "paused"
