import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, SessionId } from "@berth/protocol/ids"
import type { Logger } from "../logging/logger.ts"
import { thinkingLease, watchedLease } from "../sandboxes/requests/session-leases.ts"
import type { LeaseRequest, Use } from "../sandboxes/requests/use.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import type { Rows } from "./rows.ts"

export interface PresenceParts {
  readonly rows: Pick<Rows, "get" | "lastSandbox">
  readonly sandboxes: Pick<UsedSandboxes, "resume" | "endUses" | "usedFor">
  /** How long a session keeps its sandbox after it was active; 0: not at all. */
  readonly sessionKeepMs: number
  readonly log: Logger
}

/**
 * Keeps the sandbox of a session's last prompt beyond its prompts: while somebody watches, and for a while after that
 * and after each prompt.
 */
export interface Presence {
  /** The sandbox that a session keeps: its next prompt goes there, even if the sandbox is about to be replaced. */
  of(session: SessionId): Promise<SandboxId | undefined>
  /** Notes that a prompt of the session runs until the signal fires. Resolves when its sandbox is kept; never fails. */
  work(session: SessionId, signal: AbortSignal): Promise<void>
  /** Notes that somebody watches the session until the signal fires. */
  watch(session: SessionId, signal: AbortSignal): void
  /** Ends the leases of a closed session. */
  end(session: SessionId): Promise<void>
  /** Stops the renewals. The leases stay, for the next server. */
  close(): void
}

/** The sources of a session's leases: between its prompts, and while it is watched. */
const SOURCES = ["session", "watcher"] as const

/** Leases are renewed several times before any of them would end. */
const RENEW_EVERY_MS = 10_000

/** The pause between two changes of one session: hundreds of watchers that come together cost as much as two. */
const REST_MS = 50

interface Present {
  working: number
  watching: number
  thought: Use | undefined
  watched: Use | undefined
  /** The last change failed, and is tried again. */
  isBehind: boolean
  /** Ends with the running change: changes of a session happen one after another. */
  turn: Promise<void>
  /** The change that waits for its turn. */
  next: Promise<void> | undefined
  /** Resolves a while after the last change. */
  rest: Promise<unknown>
}

export const openPresence = ({ rows, sandboxes, sessionKeepMs, log }: PresenceParts): Presence => {
  const present = new Map<SessionId, Present>()
  let isOver = false

  const begin = async (
    session: SessionId,
    what: "working" | "watching",
    signal: AbortSignal,
  ): Promise<void> => {
    if (signal.aborted) return
    const its = present.get(session) ?? {
      working: 0,
      watching: 0,
      thought: undefined,
      watched: undefined,
      isBehind: false,
      turn: Promise.resolve(),
      next: undefined,
      rest: Promise.resolve(),
    }
    present.set(session, its)
    its[what]++
    signal.addEventListener("abort", () => {
      // A client that this server disconnects at shutdown gets a grace period on the next server.
      if (isStopping(signal.reason)) return
      its[what]--
      void inTurn(session, its)
    })
    await inTurn(session, its)
  }

  /** Changes that come while one waits for its turn are made together with it. */
  const inTurn = (session: SessionId, its: Present): Promise<void> => {
    its.next ??= its.turn.then(async () => {
      await its.rest
      its.next = undefined
      await bringInLine(session, its)
      its.rest = pause(REST_MS, undefined, { ref: false })
      // Deleted only after the last change, so that newcomers are counted with those who are there.
      const isOver = its.working === 0 && its.watching === 0
      if (isOver && its.next === undefined) present.delete(session)
    })
    its.turn = its.next
    return its.turn
  }

  /** Puts the leases on the sandbox of the last prompt, and renews those that stay. */
  const bringInLine = async (session: SessionId, its: Present): Promise<void> => {
    if (isOver) return
    try {
      const { state } = await rows.get(session)
      const sandbox = state === "open" ? await rows.lastSandbox(session) : undefined
      const kept = sessionKeepMs > 0 ? sandbox : undefined
      its.thought = await moved(its.thought, kept, thinkingLease(session, sessionKeepMs))
      const seen = its.watching > 0 ? sandbox : undefined
      its.watched = await moved(its.watched, seen, watchedLease(session))
    } catch (err) {
      its.isBehind = true
      log.warn(
        { op: "session.keep", session, err },
        "keeping the sandbox of a session failed; retrying",
      )
    }
  }

  const moved = async (
    before: Use | undefined,
    sandbox: SandboxId | undefined,
    claim: LeaseRequest,
  ): Promise<Use | undefined> => {
    // The lease is taken even if there was one: the sandbox may have been presumed dead in between, which ended every
    // lease of it.
    const use = await take(sandbox, claim)
    use?.renew()
    if (before?.sandbox !== sandbox) await before?.end()
    return use
  }

  /** undefined: the sandbox cannot be used any more. */
  const take = async (
    sandbox: SandboxId | undefined,
    claim: LeaseRequest,
  ): Promise<Use | undefined> => {
    try {
      return sandbox && (await sandboxes.resume(sandbox, claim))
    } catch (thrown) {
      if (thrown instanceof BerthError && thrown.code === "sandbox.ended") return undefined
      throw thrown
    }
  }

  const renew = () => {
    for (const [session, its] of present) {
      its.thought?.renew()
      its.watched?.renew()
      if (its.isBehind) void inTurn(session, its)
      its.isBehind = false
    }
  }
  const renewing = setInterval(renew, Math.min(RENEW_EVERY_MS, sessionKeepMs / 3 || RENEW_EVERY_MS))
  renewing.unref()

  return {
    of: (session) => sandboxes.usedFor(SOURCES, session),
    work: (session, signal) => begin(session, "working", signal),
    watch: (session, signal) => void begin(session, "watching", signal),
    end: async (session) => {
      const its = present.get(session)
      if (its !== undefined) await inTurn(session, its)
      await sandboxes.endUses(SOURCES, (subject) => subject === session)
    },
    close: () => {
      isOver = true
      clearInterval(renewing)
    },
  }
}

const isStopping = (reason: unknown): boolean =>
  reason instanceof BerthError && reason.code === "server.stopping"
