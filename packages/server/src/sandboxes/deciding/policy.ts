import { type Config, DEFAULT_IDLE } from "@berth/local/config/schema"
import { type Duration, durationMs } from "@berth/protocol/duration"
import type { Policy } from "./decide.ts"

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

export const policyOf = ({
  idlePause,
  idleStop,
  failedBootKeep,
}: Pick<Config, "idlePause" | "idleStop" | "failedBootKeep">): Policy => ({
  pauseAfterMs: afterMs(idlePause),
  stopAfterMs: afterMs(idleStop),
  failedBootKeepMs: durationMs(failedBootKeep),
  quarantineMs: 7 * DAY_MS,
  silentMs: 10 * MINUTE_MS,
})

const afterMs = (idle: Duration): number | null => durationMs(idle) || null

export const DEFAULT_POLICY = policyOf(DEFAULT_IDLE)
