import type { Activity } from "@berth/protocol/activity"
import type { SandboxId } from "@berth/protocol/ids"
import type { LeaseKind } from "@berth/protocol/lease"
import type { Clock } from "./clock.ts"
import type { Life } from "./decide.ts"
import type { Leases } from "./leases.ts"

/** How long a terminal that nobody looks at keeps its sandbox. */
export const UNWATCHED_TERMINAL_MS = 30 * 60_000

/** How long a sandbox has to say what lives in it. */
const ANSWER_MS = 3_000
/** How long one question waits for a change. */
const CHANGE_MS = 20_000

export interface LivesParts {
  readonly clock: Clock
  readonly leases: Leases
  readonly ask: (
    sandbox: SandboxId,
    change: { readonly after: number; readonly waitMs: number } | undefined,
    signal: AbortSignal,
  ) => Promise<Activity>
}

/**
 * What lives in sandboxes, by their own word, as leases: commands in the background and terminals outlive the
 * request that began them, and the server.
 */
export interface Lives {
  of(sandbox: SandboxId): Life
  /** One that this server has made: nothing lives in it that did not come through here. */
  born(sandbox: SandboxId): void
  /** Asks, and brings the leases in line. One that does not answer is silent. */
  ask(sandbox: SandboxId): Promise<Life>
  /** Of a request that may have left something behind: resolves when that has its lease. */
  look(sandbox: SandboxId): Promise<void>
  forget(sandbox: SandboxId): void
  close(): void
}

export const openLives = ({ clock, leases, ask }: LivesParts): Lives => {
  const over = new AbortController()
  const lives = new Map<SandboxId, Life>()
  const silences = new Map<SandboxId, { readonly sinceMs: number; readonly askedMs: number }>()
  const followed = new Map<SandboxId, AbortController>()

  const sync = async (sandbox: SandboxId, activity: Activity): Promise<void> => {
    const living = claimsOf(activity)
    const held = (await leases.of(sandbox)).filter(({ holder }) => isOwn(holder))
    for (const { id, holder } of held) {
      const claim = living.get(holder)
      if (claim === undefined) await leases.release(id)
      else if (claim.isWatched) leases.renew(id)
    }
    const known = new Set(held.map(({ holder }) => holder))
    for (const [holder, { kind, ttlMs }] of living)
      if (!known.has(holder))
        await leases.acquire({ sandbox, holder, kind, ...(ttlMs !== undefined && { ttlMs }) })
    lives.set(sandbox, lifeOf(activity))
    silences.delete(sandbox)
    if (living.size > 0) follow(sandbox, activity.version)
  }

  const follow = (sandbox: SandboxId, version: number): void => {
    if (followed.has(sandbox) || over.signal.aborted) return
    const stop = new AbortController()
    followed.set(sandbox, stop)
    const signal = AbortSignal.any([over.signal, stop.signal])
    void followOn(sandbox, version, signal).finally(() => followed.delete(sandbox))
  }

  /** Until nothing lives in it, or it does not answer: then it is asked again when that matters. */
  const followOn = async (sandbox: SandboxId, version: number, signal: AbortSignal) => {
    try {
      for (let after = version; ; ) {
        const activity = await ask(sandbox, { after, waitMs: CHANGE_MS }, signal)
        after = activity.version
        await sync(sandbox, activity)
        if (claimsOf(activity).size === 0) return
      }
    } catch {
      if (!signal.aborted) lives.delete(sandbox)
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
        // Whether anything lives in it is open again.
        lives.delete(sandbox)
      }
    },
    forget: (sandbox) => {
      followed.get(sandbox)?.abort()
      lives.delete(sandbox)
      silences.delete(sandbox)
    },
    close: () => over.abort(),
  }
}

const COMMAND = "command "
const TERMINAL = "terminal "

const isOwn = (holder: string): boolean => holder.startsWith(COMMAND) || holder.startsWith(TERMINAL)

interface Claim {
  readonly kind: LeaseKind
  readonly ttlMs?: number
  readonly isWatched?: boolean
}

const claimsOf = ({ commands, terminals }: Activity): Map<string, Claim> =>
  new Map([
    ...commands.map((id): [string, Claim] => [`${COMMAND}${id}`, { kind: "exec" }]),
    ...terminals.map(({ id, viewers }): [string, Claim] => [
      `${TERMINAL}${id}`,
      { kind: "terminal", ttlMs: UNWATCHED_TERMINAL_MS, isWatched: viewers > 0 },
    ]),
  ])

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
