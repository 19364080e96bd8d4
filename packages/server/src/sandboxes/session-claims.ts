import type { SessionId } from "@berth/protocol/ids"
import { thinkingHolder } from "@berth/protocol/lease"
import type { Claim } from "./use.ts"

/** How long a server that starts again waits for those who watched. */
const WATCHED_MS = 30_000

/** Of a session between its prompts: whoever sent the last one may think about the next. */
export const thinkingClaim = (session: SessionId, keepMs: number): Claim => ({
  ...{ kind: "session", holder: thinkingHolder(session), ttlMs: keepMs, isLasting: true },
})

/** Of a session that somebody looks at. */
export const watchedClaim = (session: SessionId): Claim => ({
  ...{ kind: "session", holder: `whoever watches ${session}`, ttlMs: WATCHED_MS, isLasting: true },
})
