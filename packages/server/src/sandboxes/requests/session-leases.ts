import type { SessionId } from "@berth/protocol/ids"
import type { LeaseRequest } from "./use.ts"

/** A restarted server keeps sandboxes for their watchers for this long. */
const WATCHED_MS = 30_000

/**
 * The lease of a session between its prompts: the sender of the last one may think about the next. Nothing of the
 * session runs, and it can go on in another sandbox, so the lease yields.
 */
export const thinkingLease = (session: SessionId, keepMs: number): LeaseRequest => ({
  kind: "session",
  source: "session",
  subject: session,
  yields: true,
  holder: `session ${session}`,
  ttlMs: keepMs,
})

/** The lease of a session that somebody watches. */
export const watchedLease = (session: SessionId): LeaseRequest => ({
  kind: "session",
  source: "watcher",
  subject: session,
  holder: `whoever watches ${session}`,
  ttlMs: WATCHED_MS,
})
