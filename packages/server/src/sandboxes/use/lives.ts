import { setTimeout as pause } from "node:timers/promises"
import type { Activity } from "@berth/protocol/activity"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { LeaseKind } from "@berth/protocol/lease"
import { serialByKey } from "../../host/serial.ts"
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

export const openLives = ({ clock, leases, ask, onPrompts }: LivesParts): Lives => {
  const over = new AbortController()
  const lives = new Map<SandboxId, Life>()
  const silences = new Map<SandboxId, { readonly sinceMs: number; readonly askedMs: number }>()
  const followed = new Map<SandboxId, AbortController>()
  /** The version of each sandbox's last answer, and the subjects in it that have had a lease. */
  const told = new Map<SandboxId, { readonly version: number; readonly had: Set<Subject> }>()
  const serially = serialByKey()

  const take = async (sandbox: SandboxId, activity: Activity): Promise<void> => {
    const { version, had: before } = told.get(sandbox) ?? { version: 0, had: new Set<Subject>() }
    // Answers may overtake each other. Where nothing newer is known, a lower version is a lie.
    if (activity.version < version && lives.has(sandbox)) return
    if (activity.version < version) throw backwards(sandbox)
    const living = claimsOf(activity)
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
      if (isLapsed || (await acquire(sandbox, subject, claim))) had.add(subject)
    }
    // Leases are released last, so that there is no moment without any while one use follows another.
    for (const { id, subject } of own) if (!living.has(subject)) await leases.release(id)
    told.set(sandbox, { version: activity.version, had })
    lives.set(sandbox, lifeOf(activity))
    silences.delete(sandbox)
    if (activity.prompts.length > 0) onPrompts(sandbox, activity.prompts)
    if (living.size > 0) follow(sandbox, activity.version)
    else unfollow(sandbox)
  }

  /** Returns false if the store does not know the sandbox, or it is stopping. What lives in it is true all the same. */
  const acquire = async (sandbox: SandboxId, subject: Subject, claim: Claim) => {
    const { kind, holder, ttlMs } = claim
    try {
      await leases.acquire({
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

  const sync = (sandbox: SandboxId, activity: Activity): Promise<void> =>
    serially(sandbox, () => take(sandbox, activity))

  const follow = (sandbox: SandboxId, version: number): void => {
    if (followed.has(sandbox) || over.signal.aborted) return
    const stop = new AbortController()
    followed.set(sandbox, stop)
    void followOn(sandbox, version, stop)
  }

  const unfollow = (sandbox: SandboxId): void => {
    followed.get(sandbox)?.abort()
    followed.delete(sandbox)
  }

  /**
   * Follows the changes until nothing lives in the sandbox, or it does not answer: then it is asked again when that
   * matters.
   */
  const followOn = async (sandbox: SandboxId, version: number, stop: AbortController) => {
    const signal = AbortSignal.any([over.signal, stop.signal])
    try {
      for (let after = version; !signal.aborted; ) {
        const activity = await ask(sandbox, { after, waitMs: CHANGE_MS }, signal)
        after = activity.version
        await sync(sandbox, activity)
        await pause(BETWEEN_MS, undefined, { signal, ref: false })
      }
    } catch {
      if (!signal.aborted) lives.delete(sandbox)
    } finally {
      if (followed.get(sandbox) === stop) followed.delete(sandbox)
    }
  }

  const askNow = async (sandbox: SandboxId): Promise<void> => {
    const signal = AbortSignal.any([over.signal, AbortSignal.timeout(ANSWER_MS)])
    await sync(sandbox, await ask(sandbox, undefined, signal))
  }

  const of = (sandbox: SandboxId): Life => {
    const silence = silences.get(sandbox)
    const now = clock.monotonicMs()
    if (silence !== undefined)
      return { kind: "silent", forMs: now - silence.sinceMs, askedMs: now - silence.askedMs }
    return lives.get(sandbox) ?? { kind: "not asked" }
  }

  return {
    of,
    born: (sandbox) => lives.set(sandbox, { kind: "none" }),
    ask: async (sandbox) => {
      try {
        await askNow(sandbox)
      } catch {
        const askedMs = clock.monotonicMs()
        silences.set(sandbox, { sinceMs: silences.get(sandbox)?.sinceMs ?? askedMs, askedMs })
      }
      return of(sandbox)
    },
    look: async (sandbox) => {
      try {
        await askNow(sandbox)
      } catch {
        // The answer is not known any more: the sandbox has to be asked again.
        lives.delete(sandbox)
      }
    },
    forget: (sandbox) => {
      unfollow(sandbox)
      told.delete(sandbox)
      lives.delete(sandbox)
      silences.delete(sandbox)
    },
    close: () => over.abort(),
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
