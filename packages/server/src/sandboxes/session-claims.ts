import type { SessionId } from "@berth/protocol/ids"
import type { Claim } from "./use.ts"

/** How long a server that starts again waits for those who watched. */
const WATCHED_MS = 30_000

/**
 * The claim of a session between its prompts: whoever sent the last one may think about the next. Nothing of it runs, and it can
 * go on in another sandbox, so it yields.
 */
export const thinkingClaim = (session: SessionId, keepMs: number): Claim => ({
  kind: "session",
  source: "session",
  subject: session,
  yields: true,
  holder: `session ${session}`,
  ttlMs: keepMs,
})

/** Of a session that somebody looks at. */
export const watchedClaim = (session: SessionId): Claim => ({
  kind: "session",
  source: "watcher",
  subject: session,
  holder: `whoever watches ${session}`,
  ttlMs: WATCHED_MS,
})
