import type { SessionId } from "@berth/protocol/ids"
import type { Claim } from "./use.ts"

/** How long a restarted server keeps sandboxes for those who watched. */
const WATCHED_MS = 30_000

/**
 * The claim of a session between its prompts: the sender of the last one may think about the next. Nothing of the
 * session runs, and it can go on in another sandbox, so the claim yields.
 */
export const thinkingClaim = (session: SessionId, keepMs: number): Claim => ({
  kind: "session",
  source: "session",
  subject: session,
  yields: true,
  holder: `session ${session}`,
  ttlMs: keepMs,
})

/** The claim of a session that somebody watches. */
export const watchedClaim = (session: SessionId): Claim => ({
  kind: "session",
  source: "watcher",
  subject: session,
  holder: `whoever watches ${session}`,
  ttlMs: WATCHED_MS,
})
