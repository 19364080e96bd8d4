import { setTimeout as pause } from "node:timers/promises"
import { serialByKey } from "@berth/host/serial"
import { timeoutSignal } from "@berth/host/timeout-signal"
import type { Activity } from "@berth/protocol/activity"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { LeaseKind } from "@berth/protocol/lease"
import type { Clock } from "../state/clock.ts"
import type { Leases } from "./leases.ts"

/** A terminal without a viewer keeps its sandbox for this long. */
export const UNWATCHED_TERMINAL_MS = 30 * 60_000

/** The time that a sandbox has to tell its activity. */
const ANSWER_MS = 3_000
/** One query waits for a change for this long. */
const CHANGE_MS = 20_000
/**
 * The pause between an answer and the next query, so that a sandbox that always answers at once does not keep the
 * server busy.
 */
const BETWEEN_MS = 200

/** The activity of a sandbox, as its supervisor has told this server. */
export type KnownActivity =
  | { readonly kind: "unknown" }
  | { readonly kind: "active"; readonly what: string }
  | { readonly kind: "none" }
  /** The sandbox does not answer: for `forMs` in all, and was last queried `queriedMs` ago. */
  | { readonly kind: "silent"; readonly forMs: number; readonly queriedMs: number }

export interface ActivitiesParts {
  readonly clock: Clock
  readonly leases: Leases
  readonly query: (
    sandbox: SandboxId,
    change: { readonly after: number; readonly waitMs: number } | undefined,
    signal: AbortSignal,
  ) => Promise<Activity>
  /** Called with the prompts that run in a sandbox, as it says itself. */
  readonly onPrompts: (sandbox: SandboxId, prompts: readonly PromptId[]) => void
}

/**
 * Keeps leases for the activities of sandboxes, as their supervisors tell them. Prompts, background commands, terminals and
 * the processes that they left running outlive the request that began them, and the server.
 */
export interface Activities {
  of(sandbox: SandboxId): KnownActivity
  /** Notes a sandbox that this server has made: nothing can be active in it yet. */
  begin(sandbox: SandboxId): void
  /** Queries the sandbox, and brings the leases in line with its answer. A sandbox that does not answer is silent. */
  query(sandbox: SandboxId): Promise<KnownActivity>
  /** Queries the sandbox after a request that may have left something running. Resolves when that has its lease. */
  refresh(sandbox: SandboxId): Promise<void>
  forget(sandbox: SandboxId): void
  close(): void
}

export const openActivities = (parts: ActivitiesParts): Activities => new ToldActivities(parts)

class ToldActivities implements Activities {
  readonly #parts: ActivitiesParts
  readonly #over = new AbortController()
  readonly #activities = new Map<SandboxId, KnownActivity>()
  readonly #silences = new Map<
    SandboxId,
    { readonly sinceMs: number; readonly queriedMs: number }
  >()
  readonly #followed = new Map<SandboxId, AbortController>()
  /** The version of each sandbox's last answer, and the subjects in it that have had a lease. */
  readonly #told = new Map<SandboxId, { readonly version: number; readonly had: Set<Subject> }>()
  readonly #serially = serialByKey()

  constructor(parts: ActivitiesParts) {
    this.#parts = parts
  }

  of(sandbox: SandboxId): KnownActivity {
    const silence = this.#silences.get(sandbox)
    const now = this.#parts.clock.monotonicMs()
    if (silence !== undefined)
      return { kind: "silent", forMs: now - silence.sinceMs, queriedMs: now - silence.queriedMs }
    return this.#activities.get(sandbox) ?? { kind: "unknown" }
  }

  begin(sandbox: SandboxId): void {
    this.#activities.set(sandbox, { kind: "none" })
  }

  async query(sandbox: SandboxId): Promise<KnownActivity> {
    try {
      await this.#queryNow(sandbox)
    } catch {
      const queriedMs = this.#parts.clock.monotonicMs()
      const sinceMs = this.#silences.get(sandbox)?.sinceMs ?? queriedMs
      this.#silences.set(sandbox, { sinceMs, queriedMs })
    }
    return this.of(sandbox)
  }

  async refresh(sandbox: SandboxId): Promise<void> {
    try {
      await this.#queryNow(sandbox)
    } catch {
      // The answer is not known any more: the sandbox has to be queried again.
      this.#activities.delete(sandbox)
    }
  }

  forget(sandbox: SandboxId): void {
    this.#unfollow(sandbox)
    this.#told.delete(sandbox)
    this.#activities.delete(sandbox)
    this.#silences.delete(sandbox)
  }

  close(): void {
    this.#over.abort()
  }

  async #queryNow(sandbox: SandboxId): Promise<void> {
    const signal = AbortSignal.any([this.#over.signal, timeoutSignal(ANSWER_MS)])
    await this.#sync(sandbox, await this.#parts.query(sandbox, undefined, signal))
  }

  #sync(sandbox: SandboxId, activity: Activity): Promise<void> {
    return this.#serially(sandbox, () => this.#take(sandbox, activity))
  }

  async #take(sandbox: SandboxId, activity: Activity): Promise<void> {
    const none = { version: 0, had: new Set<Subject>() }
    const { version, had: before } = this.#told.get(sandbox) ?? none
    // Answers may overtake each other. Where nothing newer is known, a lower version is a lie.
    if (activity.version < version && this.#activities.has(sandbox)) return
    if (activity.version < version) throw backwards(sandbox)
    const living = leasesWantedBy(activity)
    const had = await this.#bringInLine(sandbox, living, before)
    this.#told.set(sandbox, { version: activity.version, had })
    this.#activities.set(sandbox, knownActivityOf(activity))
    this.#silences.delete(sandbox)
    if (activity.prompts.length > 0) this.#parts.onPrompts(sandbox, activity.prompts)
    if (living.size > 0) this.#follow(sandbox, activity.version)
    else this.#unfollow(sandbox)
  }

  /** Brings the leases of a sandbox in line with its activity. Returns the subjects that have, or have had, one. */
  async #bringInLine(
    sandbox: SandboxId,
    living: ReadonlyMap<Subject, WantedLease>,
    before: ReadonlySet<Subject>,
  ): Promise<Set<Subject>> {
    const { leases } = this.#parts
    const own = (await leases.of(sandbox)).filter(({ source }) => source === "sandbox")
    const had = new Set<Subject>()
    for (const { id, subject } of own) {
      const wanted = living.get(subject)
      if (wanted !== undefined && (!wanted.isWatched || leases.renew(id))) had.add(subject)
    }
    for (const [subject, wanted] of living) {
      if (had.has(subject)) continue
      // A terminal whose lease has run out gets another when somebody looks at it again.
      const isLapsed = wanted.isWatched === false && before.has(subject)
      if (isLapsed || (await this.#acquire(sandbox, subject, wanted))) had.add(subject)
    }
    // Leases are released last, so that there is no moment without any while one use follows another.
    for (const { id, subject } of own) if (!living.has(subject)) await leases.release(id)
    return had
  }

  /** Returns false if the store does not know the sandbox, or it is stopping. What activities in it is true all the same. */
  async #acquire(sandbox: SandboxId, subject: Subject, wanted: WantedLease): Promise<boolean> {
    const { kind, holder, ttlMs } = wanted
    try {
      await this.#parts.leases.acquire({
        sandbox,
        kind,
        source: "sandbox",
        ...(subject !== null && { subject }),
        holder,
        ...(ttlMs !== undefined && { ttlMs }),
      })
      return true
    } catch (thrown) {
      if (thrown instanceof BerthError && thrown.code === "sandbox.ended") return false
      throw thrown
    }
  }

  #follow(sandbox: SandboxId, version: number): void {
    if (this.#followed.has(sandbox) || this.#over.signal.aborted) return
    const stop = new AbortController()
    this.#followed.set(sandbox, stop)
    void this.#followOn(sandbox, version, stop)
  }

  #unfollow(sandbox: SandboxId): void {
    this.#followed.get(sandbox)?.abort()
    this.#followed.delete(sandbox)
  }

  /**
   * Follows the changes until nothing is active in the sandbox, or it does not answer. It is queried again when that
   * matters.
   */
  async #followOn(sandbox: SandboxId, version: number, stop: AbortController): Promise<void> {
    const signal = AbortSignal.any([this.#over.signal, stop.signal])
    try {
      for (let after = version; !signal.aborted; ) {
        const activity = await this.#parts.query(sandbox, { after, waitMs: CHANGE_MS }, signal)
        after = activity.version
        await this.#sync(sandbox, activity)
        await pause(BETWEEN_MS, undefined, { signal, ref: false })
      }
    } catch {
      if (!signal.aborted) this.#activities.delete(sandbox)
    } finally {
      if (this.#followed.get(sandbox) === stop) this.#followed.delete(sandbox)
    }
  }
}

const backwards = (sandbox: SandboxId): BerthError =>
  new BerthError("bridge.protocol_violated", "the sandbox's versions go backwards", {
    details: { sandbox },
  })

/** The id of a prompt, a command or a terminal; null: processes that one of them left running. */
type Subject = string | null

interface WantedLease {
  readonly kind: LeaseKind
  readonly holder: string
  readonly ttlMs?: number
  /** Whether somebody looks at the terminal; only terminals have this. */
  readonly isWatched?: boolean
}

const leasesWantedBy = ({
  prompts,
  commands,
  terminals,
  leftProcesses,
}: Activity): Map<Subject, WantedLease> => {
  const wanted = new Map<Subject, WantedLease>()
  for (const id of prompts) wanted.set(id, { kind: "prompt", holder: `running prompt ${id}` })
  for (const id of commands) wanted.set(id, { kind: "exec", holder: `command ${id}` })
  for (const { id, viewers } of terminals)
    wanted.set(id, {
      kind: "terminal",
      holder: `terminal ${id}`,
      ttlMs: UNWATCHED_TERMINAL_MS,
      isWatched: viewers > 0,
    })
  if (leftProcesses > 0) wanted.set(null, { kind: "session", holder: "processes left running" })
  return wanted
}

const knownActivityOf = ({
  prompts,
  commands,
  terminals,
  leftProcesses,
}: Activity): KnownActivity => {
  const what = [
    ...counted(prompts.length, "prompt"),
    ...counted(commands.length, "command"),
    ...counted(terminals.length, "terminal"),
    ...counted(leftProcesses, "process", "processes"),
  ]
  return what.length === 0 ? { kind: "none" } : { kind: "active", what: what.join(", ") }
}

const counted = (count: number, one: string, many = `${one}s`): string[] =>
  count === 0 ? [] : [`${count} ${count === 1 ? one : many}`]
