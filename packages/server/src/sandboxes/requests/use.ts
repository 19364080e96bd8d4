import { setTimeout as pause } from "node:timers/promises"
import type { Backend } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { LeaseId, SandboxId, Slug } from "@berth/protocol/ids"
import type { Lease, LeaseSource } from "@berth/protocol/lease"
import type { BootSummary } from "@berth/protocol/sandboxes"
import type { Workers } from "../deciding/workers.ts"
import type { Bridges } from "../keeping/bridges.ts"
import { type DialAhead, type Dialed, dialAhead } from "../keeping/dial-ahead.ts"
import { halted } from "../state/halted.ts"
import type { Rows } from "../state/rows.ts"
import type { SharedDirectory } from "../state/shared-directories.ts"
import type { Transients } from "../state/transients.ts"
import { detached, unknownSandbox } from "../state/unknown.ts"
import type { Workspaces } from "../state/workspaces.ts"
import type { Activities } from "../use/activities.ts"
import type { Leases, NewLease } from "../use/leases.ts"
import { bootFailed, type Ensure, type Ensured } from "./ensure.ts"

/** A use of a sandbox. The sandbox is not taken away until the use ends. */
export interface Use {
  /** The sandbox in use: the successor, if the one that was asked for is gone. */
  readonly sandbox: SandboxId
  /** Connects to the supervisor. The caller ends the connection. */
  dial(signal: AbortSignal): Promise<Dialed>
  /** Renews a use that ends by time. */
  renew(): void
  /** Gives a lease of its own to whatever this use left running. */
  leave(): Promise<void>
  /** May be called twice. */
  end(): Promise<void>
}

/**
 * The lease that a caller wants on a sandbox. Leases of calls end with the server; others survive a restart, until they
 * are ended.
 */
export type LeaseRequest = Omit<NewLease, "sandbox">

/** The ways to use a sandbox. */
export interface SandboxUse {
  /** Takes a lease on the sandbox; wakes it if it is paused, and makes its successor where it is gone. */
  begin(sandbox: SandboxId, request: LeaseRequest, signal: AbortSignal): Promise<Use>
  /**
   * Like `begin`, for a workspace's current sandbox, made if there is none. Fails if its boot does. `onBooting` is
   * called with the sandbox whose boot is awaited.
   */
  useOf(
    workspace: Slug,
    request: LeaseRequest,
    signal: AbortSignal,
    onBooting?: (sandbox: SandboxId) => void,
  ): Promise<Use>
  /** Like `begin`, for exactly this sandbox, stale or not. Fails where it is not to be used any more. */
  useOnly(sandbox: SandboxId, request: LeaseRequest): Promise<Use>
  /** Takes the lease alone, on the sandbox or its successor: the holder calls nothing in it. */
  lease(sandbox: SandboxId, request: LeaseRequest, signal: AbortSignal): Promise<Leased>
  /** Resumes a use that outlived a server. Fails where that sandbox is not to be used any more. */
  resume(sandbox: SandboxId, request: LeaseRequest): Promise<Use>
  /** The sandbox that has a lease of these sources for a subject: the latest one. */
  usedFor(sources: readonly LeaseSource[], subject: string): Promise<SandboxId | undefined>
  /** Ends the leases of these sources whose subject is over. */
  endUses(
    sources: readonly LeaseSource[],
    isOver: (subject: string | null) => boolean,
  ): Promise<void>
}

export interface UseParts {
  readonly backend: Pick<Backend, "inspect">
  readonly bridges: Pick<Bridges, "dial">
  readonly rows: Rows
  readonly workspaces: Workspaces
  readonly leases: Leases
  readonly activities: Activities
  readonly workers: Workers
  readonly ensure: Ensure
  readonly transients: Pick<Transients, "get">
  /** Why the sandbox stays halted, if it does. */
  readonly held: (sandbox: SandboxId) => string | undefined
  readonly sharedDirectoryOf: (sandbox: SandboxId) => Promise<SharedDirectory>
  readonly booted: (sandbox: SandboxId, signal: AbortSignal) => Promise<void>
  readonly bootOf: (sandbox: SandboxId) => BootSummary | undefined
}

/** A caller that waits for longer than this gets an error that names the users, and may wait on. */
const UNTOLD_MS = 1_000

/** A sandbox that has just been started listens in a moment; on a busy host, in a few. */
const DIAL_MS = 5_000
const DIAL_PAUSE_MS = 20

export const openSandboxUse = (parts: UseParts): SandboxUse => {
  const { leases, workers, ensure } = parts
  return {
    begin: async (sandbox, request, signal) => {
      // The connection is made while the lease is being written: one less thing to wait for before every command.
      const ahead = dialAhead(() => dialOnce(parts, sandbox, signal))
      try {
        const taken = await acquire(parts, sandbox, request, signal)
        if (taken.sandbox !== sandbox) ahead.drop()
        return await begin(parts, { taken, request, ahead })
      } catch (thrown) {
        ahead.drop()
        throw thrown
      }
    },

    useOf: async (workspace, request, signal, onBooting) => {
      const options = { mode: "fresh", isRequested: false, waitMs: UNTOLD_MS } as const
      const { sandbox } = await ensure(workspace, options, signal)
      const use = await begin(parts, {
        taken: await acquire(parts, sandbox, request, signal),
        request,
      })
      try {
        onBooting?.(use.sandbox)
        await requireReady(parts, use.sandbox, signal)
        return use
      } catch (thrown) {
        await use.end()
        throw thrown
      }
    },

    useOnly: async (sandbox, request) => {
      // Finds out first if the sandbox has just ended.
      await workers.settle(sandbox)
      const lease = await leases.acquire({ ...request, sandbox })
      return await begin(parts, { taken: { sandbox, lease }, request })
    },

    lease: (sandbox, request, signal) => acquire(parts, sandbox, request, signal),

    resume: async (sandbox, request) => {
      const isSame = ({ source, subject }: Pick<Lease, "source" | "subject">) =>
        source === request.source && subject === (request.subject ?? null)
      const found = (await leases.of(sandbox)).find(isSame)?.id
      if (found !== undefined && request.ttlMs !== undefined)
        await leases.retime(found, request.ttlMs)
      const lease = found ?? (await leases.acquire({ ...request, sandbox }))
      return await begin(parts, {
        taken: { sandbox, lease },
        request,
        isFound: found !== undefined,
      })
    },

    usedFor: async (sources, subject) => (await leases.by(sources, subject)).at(-1)?.sandbox,

    endUses: async (sources, isOver) => {
      for (const { id, subject } of await leases.by(sources))
        if (isOver(subject)) await leases.release(id)
    },
  }
}

interface UseStart {
  readonly taken: Leased
  readonly request: LeaseRequest
  /** The connection that was begun beside the lease. */
  readonly ahead?: DialAhead
  /** The lease was there before: it belongs to a use that goes on. */
  readonly isFound?: boolean
}

/** Begins a use: the sandbox is resumed if it is paused. Fails if it is halted. */
const begin = async (parts: UseParts, start: UseStart): Promise<Use> => {
  const { sandbox } = start.taken
  const use = new LeasedUse(parts, start)
  try {
    const reason = parts.held(sandbox)
    if (reason !== undefined) throw halted(sandbox, reason)
    if (parts.transients.get(sandbox).isFrozen) await thaw(parts.workers, sandbox)
    return use
  } catch (thrown) {
    // A lease that was there before belongs to a use that goes on, and may be resumed later.
    if (start.isFound !== true) await use.end()
    throw thrown
  }
}

/** A use by one lease, which is taken again where it has run out. Its methods may be passed on without it. */
class LeasedUse implements Use {
  readonly sandbox: SandboxId
  readonly #parts: UseParts
  readonly #request: LeaseRequest
  readonly #ahead: DialAhead | undefined
  #lease: LeaseId
  #renewing: Promise<void> | undefined
  #isOver = false

  constructor(parts: UseParts, { taken, request, ahead }: UseStart) {
    this.#parts = parts
    this.#request = request
    this.#ahead = ahead
    this.sandbox = taken.sandbox
    this.#lease = taken.lease
  }

  readonly dial = async (until: AbortSignal): Promise<Dialed> =>
    (await this.#ahead?.take()) ?? (await dial(this.#parts, this.sandbox, until))

  readonly renew = (): void => {
    if (this.#isOver || this.#request.ttlMs === undefined) return
    if (this.#parts.leases.renew(this.#lease)) return
    // Refused where the sandbox has been given up meanwhile: the connection ends with it.
    this.#renewing ??= this.#acquireAgain()
      .catch(() => {})
      .finally(() => {
        this.#renewing = undefined
      })
  }

  readonly leave = (): Promise<void> => this.#parts.activities.refresh(this.sandbox)

  readonly end = async (): Promise<void> => {
    this.#isOver = true
    this.#ahead?.drop()
    await this.#renewing
    await this.#parts.leases.release(this.#lease)
  }

  async #acquireAgain(): Promise<void> {
    const { leases } = this.#parts
    this.#lease = await leases.acquire({ ...this.#request, sandbox: this.sandbox })
  }
}

/** Waits for the boot of a sandbox. Throws if it is not ready then. */
const requireReady = async (
  { booted, bootOf }: UseParts,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  await booted(sandbox, signal)
  signal.throwIfAborted()
  const boot = bootOf(sandbox)
  if (boot === undefined || boot.readyAtMs === null) throw notReady(sandbox, boot)
}

export interface Leased {
  readonly sandbox: SandboxId
  readonly lease: LeaseId
}

const acquire = async (
  parts: UseParts,
  sandbox: SandboxId,
  request: LeaseRequest,
  signal: AbortSignal,
): Promise<Leased> => {
  let next: Ensured = { sandbox, made: false }
  for (;;) {
    try {
      const lease = await parts.leases.acquire({ ...request, sandbox: next.sandbox })
      return { sandbox: next.sandbox, lease }
    } catch (thrown) {
      if (!(thrown instanceof BerthError && thrown.code === "sandbox.ended")) throw thrown
      if (next.made) await refuseFailed(parts, next.sandbox)
      next = await successor(parts, next.sandbox, thrown, signal)
    }
  }
}

/** Throws if the boot of a sandbox that was made and has ended failed: another boot would fail as well. */
const refuseFailed = async ({ rows, workspaces }: UseParts, sandbox: SandboxId): Promise<void> => {
  const row = await rows.get(sandbox)
  const failed = row && (await workspaces.get(row.workspace))?.failed
  if (row !== undefined && failed?.hash === row.configHash) throw bootFailed(row, failed.why)
}

/** The successor of a sandbox that cannot be used. */
const successor = async (
  { rows, workspaces, workers, ensure, booted, bootOf }: UseParts,
  sandbox: SandboxId,
  refusal: BerthError,
  signal: AbortSignal,
): Promise<Ensured> => {
  const row = await rows.get(sandbox)
  if (row === undefined) throw unknownSandbox(sandbox)
  if (row.phase === "quarantined") throw refusal
  if (row.isDetached || (await workspaces.get(row.workspace)) === undefined) throw detached(sandbox)
  const options = { mode: "fresh", isRequested: false } as const
  const next = await ensure(row.workspace, options, signal)
  if (!next.made) return next
  await booted(next.sandbox, signal)
  // A sandbox whose boot failed may be used only if it is to be kept.
  if (bootOf(next.sandbox)?.readyAtMs === null) await workers.settle(next.sandbox)
  return next
}

/** Resumes a paused sandbox that is in use. */
const thaw = async (workers: Workers, sandbox: SandboxId): Promise<void> => {
  const { failure } = await workers.settle(sandbox)
  if (failure !== undefined) throw failure
}

const dialOnce = async (
  { bridges, sharedDirectoryOf }: UseParts,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<Dialed> => {
  const shared = await sharedDirectoryOf(sandbox)
  return { socket: await bridges.dial(shared, signal), token: shared.token }
}

const dial = async (parts: UseParts, sandbox: SandboxId, signal: AbortSignal): Promise<Dialed> => {
  for (let waitedMs = 0; ; waitedMs += DIAL_PAUSE_MS) {
    try {
      return await dialOnce(parts, sandbox, signal)
    } catch (thrown) {
      const isEarly = thrown instanceof BerthError && thrown.code === "bridge.unreachable"
      if (!isEarly || waitedMs >= DIAL_MS) throw thrown
      const state = (await parts.backend.inspect(sandbox, { signal }))?.state
      if (state === undefined || state === "exited") throw ended(sandbox, thrown)
      await pause(DIAL_PAUSE_MS, undefined, { signal })
    }
  }
}

const ended = (sandbox: SandboxId, cause: unknown): BerthError =>
  new BerthError("backend.unknown_sandbox", `${sandbox} has ended`, { details: { sandbox }, cause })

/**
 * The error of a sandbox that is not ready. One that gave no reason was ended from outside, and the next may succeed.
 */
const notReady = (sandbox: SandboxId, boot: BootSummary | undefined): BerthError => {
  if (boot?.ending == null)
    return new BerthError("bridge.dropped", `${sandbox} ended before it was ready`, {
      details: { sandbox },
    })
  const { step, reason } = boot.ending
  return new BerthError("boot.failed", `the boot of ${sandbox} failed: ${reason}`, {
    details: { sandbox, step, reason },
  })
}
