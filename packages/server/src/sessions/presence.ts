import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, SessionId } from "@berth/protocol/ids"
import type { Logger } from "../logging/logger.ts"
import { thinkingLease, watchedLease } from "../sandboxes/requests/session-leases.ts"
import type { LeaseRequest, Use } from "../sandboxes/requests/use.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { isEnded } from "./failures.ts"
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

/** The presence of one session: who works and watches in it, and the leases that follow from that. */
class SessionPresence {
  readonly #parts: PresenceParts
  readonly #session: SessionId
  readonly #onOver: () => void
  #working = 0
  #watching = 0
  #thinking: Use | undefined
  #watched: Use | undefined
  /** The last change failed, and is tried again. */
  #isBehind = false
  /** Ends with the running change: changes of a session happen one after another. */
  #turn: Promise<void> = Promise.resolve()
  /** The change that waits for its turn. */
  #next: Promise<void> | undefined
  /** Resolves a while after the last change. */
  #rest: Promise<unknown> = Promise.resolve()
  #isClosed = false

  /** `onOver` is called when nobody works or watches in the session any more, and its leases follow from that. */
  constructor(parts: PresenceParts, session: SessionId, onOver: () => void) {
    this.#parts = parts
    this.#session = session
    this.#onOver = onOver
  }

  count(what: "working" | "watching", by: 1 | -1): void {
    if (what === "working") this.#working += by
    else this.#watching += by
  }

  /** Brings the leases in line. Changes that come while one waits for its turn are made together with it. */
  change(): Promise<void> {
    this.#next ??= this.#turn.then(async () => {
      await this.#rest
      this.#next = undefined
      await this.#bringInLine()
      this.#rest = pause(REST_MS, undefined, { ref: false })
      // Only after the last change, so that newcomers are counted with those who are there.
      const isOver = this.#working === 0 && this.#watching === 0
      if (isOver && this.#next === undefined) this.#onOver()
    })
    this.#turn = this.#next
    return this.#turn
  }

  renew(): void {
    this.#thinking?.renew()
    this.#watched?.renew()
    if (this.#isBehind) void this.change()
    this.#isBehind = false
  }

  /** Leaves the leases as they are. */
  close(): void {
    this.#isClosed = true
  }

  /** Puts the leases on the sandbox of the last prompt, and renews those that stay. */
  async #bringInLine(): Promise<void> {
    if (this.#isClosed) return
    const { rows, sessionKeepMs, log } = this.#parts
    const session = this.#session
    try {
      const { state } = await rows.get(session)
      const sandbox = state === "open" ? await rows.lastSandbox(session) : undefined
      const kept = sessionKeepMs > 0 ? sandbox : undefined
      this.#thinking = await this.#move(this.#thinking, kept, thinkingLease(session, sessionKeepMs))
      const seen = this.#watching > 0 ? sandbox : undefined
      this.#watched = await this.#move(this.#watched, seen, watchedLease(session))
    } catch (err) {
      this.#isBehind = true
      log.warn(
        { op: "session.keep", session, err },
        "keeping the sandbox of a session failed; retrying",
      )
    }
  }

  async #move(
    before: Use | undefined,
    sandbox: SandboxId | undefined,
    request: LeaseRequest,
  ): Promise<Use | undefined> {
    // The lease is taken even if there was one: the sandbox may have been presumed dead in between, which ended every
    // lease of it.
    const use = await this.#take(sandbox, request)
    use?.renew()
    if (before?.sandbox !== sandbox) await before?.end()
    return use
  }

  /** undefined: the sandbox cannot be used any more. */
  async #take(sandbox: SandboxId | undefined, request: LeaseRequest): Promise<Use | undefined> {
    try {
      return sandbox && (await this.#parts.sandboxes.resume(sandbox, request))
    } catch (thrown) {
      if (isEnded(thrown)) return undefined
      throw thrown
    }
  }
}

export const openPresence = (parts: PresenceParts): Presence => {
  const { sandboxes, sessionKeepMs } = parts
  const present = new Map<SessionId, SessionPresence>()
  let isClosed = false

  const presenceOf = (session: SessionId): SessionPresence => {
    const found =
      present.get(session) ?? new SessionPresence(parts, session, () => present.delete(session))
    if (isClosed) found.close()
    present.set(session, found)
    return found
  }

  const begin = async (
    session: SessionId,
    what: "working" | "watching",
    signal: AbortSignal,
  ): Promise<void> => {
    if (signal.aborted) return
    const its = presenceOf(session)
    its.count(what, 1)
    signal.addEventListener("abort", () => {
      // A client that this server disconnects at shutdown gets a grace period on the next server.
      if (isStopping(signal.reason)) return
      its.count(what, -1)
      void its.change()
    })
    await its.change()
  }

  const renew = () => {
    for (const its of present.values()) its.renew()
  }
  const renewing = setInterval(renew, Math.min(RENEW_EVERY_MS, sessionKeepMs / 3 || RENEW_EVERY_MS))
  renewing.unref()

  return {
    of: (session) => sandboxes.usedFor(SOURCES, session),
    work: (session, signal) => begin(session, "working", signal),
    watch: (session, signal) => void begin(session, "watching", signal),
    end: async (session) => {
      await present.get(session)?.change()
      await sandboxes.endUses(SOURCES, (subject) => subject === session)
    },
    close: () => {
      isClosed = true
      clearInterval(renewing)
      for (const its of present.values()) its.close()
    },
  }
}

const isStopping = (reason: unknown): boolean =>
  reason instanceof BerthError && reason.code === "server.stopping"
