import { setTimeout as pause } from "node:timers/promises"
import type { Activity } from "@berth/protocol/activity"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { LeaseKind } from "@berth/protocol/lease"
import { serialByKey } from "../../host/serial.ts"
import { timeoutSignal } from "../../host/timeout-signal.ts"
import type { Clock } from "../state/clock.ts"
import type { Leases } from "./leases.ts"

/** How long a terminal that nobody looks at keeps its sandbox. */
export const UNWATCHED_TERMINAL_MS = 30 * 60_000

/** The time that a sandbox has to say what lives in it. */
const ANSWER_MS = 3_000
/** How long one question waits for a change. */
const CHANGE_MS = 20_000
/**
 * The pause between an answer and the next question, so that a sandbox that always answers at once does not keep the
 * server busy.
 */
const BETWEEN_MS = 200

/** The supervisor's answer to what lives in its sandbox, since this server runs. */
export type Life =
  | { readonly kind: "not asked" }
  | { readonly kind: "alive"; readonly what: string }
  | { readonly kind: "none" }
  /** The sandbox does not answer: for `forMs` in all, and last asked `askedMs` ago. */
  | { readonly kind: "silent"; readonly forMs: number; readonly askedMs: number }

export interface LivesParts {
  readonly clock: Clock
  readonly leases: Leases
  readonly ask: (
    sandbox: SandboxId,
    change: { readonly after: number; readonly waitMs: number } | undefined,
    signal: AbortSignal,
  ) => Promise<Activity>
  /** Called with the prompts that run in a sandbox, as it says itself. */
  readonly onPrompts: (sandbox: SandboxId, prompts: readonly PromptId[]) => void
}

/**
 * Keeps leases for what lives in sandboxes, as they say themselves: prompts, background commands, terminals and the
 * processes they left running outlive the request that began them, and the server.
 */
export interface Lives {
  of(sandbox: SandboxId): Life
  /** Notes a sandbox that this server has made: nothing can live in it yet. */
  born(sandbox: SandboxId): void
  /** Asks the sandbox, and brings the leases in line with its answer. A sandbox that does not answer is silent. */
  ask(sandbox: SandboxId): Promise<Life>
  /** Asks after a request that may have left something running: resolves when that has its lease. */
  look(sandbox: SandboxId): Promise<void>
  forget(sandbox: SandboxId): void
  close(): void
}

export const openLives = (parts: LivesParts): Lives => new ToldLives(parts)

class ToldLives implements Lives {
  readonly #parts: LivesParts
  readonly #over = new AbortController()
  readonly #lives = new Map<SandboxId, Life>()
  readonly #silences = new Map<SandboxId, { readonly sinceMs: number; readonly askedMs: number }>()
  readonly #followed = new Map<SandboxId, AbortController>()
  /** The version of each sandbox's last answer, and the subjects in it that have had a lease. */
  readonly #told = new Map<SandboxId, { readonly version: number; readonly had: Set<Subject> }>()
  readonly #serially = serialByKey()

  constructor(parts: LivesParts) {
    this.#parts = parts
  }

  of(sandbox: SandboxId): Life {
    const silence = this.#silences.get(sandbox)
    const now = this.#parts.clock.monotonicMs()
    if (silence !== undefined)
      return { kind: "silent", forMs: now - silence.sinceMs, askedMs: now - silence.askedMs }
    return this.#lives.get(sandbox) ?? { kind: "not asked" }
  }

  born(sandbox: SandboxId): void {
    this.#lives.set(sandbox, { kind: "none" })
  }

  async ask(sandbox: SandboxId): Promise<Life> {
    try {
      await this.#askNow(sandbox)
    } catch {
      const askedMs = this.#parts.clock.monotonicMs()
      const sinceMs = this.#silences.get(sandbox)?.sinceMs ?? askedMs
      this.#silences.set(sandbox, { sinceMs, askedMs })
    }
    return this.of(sandbox)
  }

  async look(sandbox: SandboxId): Promise<void> {
    try {
      await this.#askNow(sandbox)
    } catch {
      // The answer is not known any more: the sandbox has to be asked again.
      this.#lives.delete(sandbox)
    }
  }

  forget(sandbox: SandboxId): void {
    this.#unfollow(sandbox)
    this.#told.delete(sandbox)
    this.#lives.delete(sandbox)
    this.#silences.delete(sandbox)
  }

  close(): void {
    this.#over.abort()
  }

  async #askNow(sandbox: SandboxId): Promise<void> {
    const signal = AbortSignal.any([this.#over.signal, timeoutSignal(ANSWER_MS)])
    await this.#sync(sandbox, await this.#parts.ask(sandbox, undefined, signal))
  }

  #sync(sandbox: SandboxId, activity: Activity): Promise<void> {
    return this.#serially(sandbox, () => this.#take(sandbox, activity))
  }

  async #take(sandbox: SandboxId, activity: Activity): Promise<void> {
    const none = { version: 0, had: new Set<Subject>() }
    const { version, had: before } = this.#told.get(sandbox) ?? none
    // Answers may overtake each other. Where nothing newer is known, a lower version is a lie.
    if (activity.version < version && this.#lives.has(sandbox)) return
    if (activity.version < version) throw backwards(sandbox)
    const living = claimsOf(activity)
    const had = await this.#bringInLine(sandbox, living, before)
    this.#told.set(sandbox, { version: activity.version, had })
    this.#lives.set(sandbox, lifeOf(activity))
    this.#silences.delete(sandbox)
    if (activity.prompts.length > 0) this.#parts.onPrompts(sandbox, activity.prompts)
    if (living.size > 0) this.#follow(sandbox, activity.version)
    else this.#unfollow(sandbox)
  }

  /** Brings the leases of a sandbox in line with what lives in it. Returns the subjects that have, or have had, one. */
  async #bringInLine(
    sandbox: SandboxId,
    living: ReadonlyMap<Subject, Claim>,
    before: ReadonlySet<Subject>,
  ): Promise<Set<Subject>> {
    const { leases } = this.#parts
    const own = (await leases.of(sandbox)).filter(({ source }) => source === "sandbox")
    const had = new Set<Subject>()
    for (const { id, subject } of own) {
      const claim = living.get(subject)
      if (claim !== undefined && (!claim.isWatched || leases.renew(id))) had.add(subject)
    }
    for (const [subject, claim] of living) {
      if (had.has(subject)) continue
      // A terminal whose lease has run out gets another when somebody looks at it again.
      const isLapsed = claim.isWatched === false && before.has(subject)
      if (isLapsed || (await this.#acquire(sandbox, subject, claim))) had.add(subject)
    }
    // Leases are released last, so that there is no moment without any while one use follows another.
    for (const { id, subject } of own) if (!living.has(subject)) await leases.release(id)
    return had
  }

  /** Returns false if the store does not know the sandbox, or it is stopping. What lives in it is true all the same. */
  async #acquire(sandbox: SandboxId, subject: Subject, claim: Claim): Promise<boolean> {
    const { kind, holder, ttlMs } = claim
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
   * Follows the changes until nothing lives in the sandbox, or it does not answer: then it is asked again when that
   * matters.
   */
  async #followOn(sandbox: SandboxId, version: number, stop: AbortController): Promise<void> {
    const signal = AbortSignal.any([this.#over.signal, stop.signal])
    try {
      for (let after = version; !signal.aborted; ) {
        const activity = await this.#parts.ask(sandbox, { after, waitMs: CHANGE_MS }, signal)
        after = activity.version
        await this.#sync(sandbox, activity)
        await pause(BETWEEN_MS, undefined, { signal, ref: false })
      }
    } catch {
      if (!signal.aborted) this.#lives.delete(sandbox)
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

interface Claim {
  readonly kind: LeaseKind
  readonly holder: string
  readonly ttlMs?: number
  /** Whether somebody looks at the terminal; only terminals have this. */
  readonly isWatched?: boolean
}

const claimsOf = ({
  prompts,
  commands,
  terminals,
  leftProcesses,
}: Activity): Map<Subject, Claim> => {
  const claims = new Map<Subject, Claim>()
  for (const id of prompts) claims.set(id, { kind: "prompt", holder: `running prompt ${id}` })
  for (const id of commands) claims.set(id, { kind: "exec", holder: `command ${id}` })
  for (const { id, viewers } of terminals)
    claims.set(id, {
      kind: "terminal",
      holder: `terminal ${id}`,
      ttlMs: UNWATCHED_TERMINAL_MS,
      isWatched: viewers > 0,
    })
  if (leftProcesses > 0) claims.set(null, { kind: "session", holder: "processes left running" })
  return claims
}

const lifeOf = ({ prompts, commands, terminals, leftProcesses }: Activity): Life => {
  const what = [
    ...counted(prompts.length, "prompt"),
    ...counted(commands.length, "command"),
    ...counted(terminals.length, "terminal"),
    ...counted(leftProcesses, "process", "processes"),
  ]
  return what.length === 0 ? { kind: "none" } : { kind: "alive", what: what.join(", ") }
}

const counted = (count: number, one: string, many = `${one}s`): string[] =>
  count === 0 ? [] : [`${count} ${count === 1 ? one : many}`]
