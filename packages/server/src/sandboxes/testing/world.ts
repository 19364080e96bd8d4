import { ConfigHash } from "@berth/protocol/sandbox"
import type { Known, World } from "../deciding/decide.ts"
import type { KnownActivity } from "../use/activities.ts"

export const [OLD_CONFIG, NEW_CONFIG] = ["a", "b"].map((letter) =>
  ConfigHash.parse(letter.repeat(64)),
) as [ConfigHash, ConfigHash]

export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS

/** Short times, so that few steps lead through them. */
export const POLICY = {
  pauseAfterMs: 10 * MINUTE_MS,
  stopAfterMs: 60 * MINUTE_MS,
  failedBootKeepMs: 15 * MINUTE_MS,
  quarantineMs: 120 * MINUTE_MS,
  silentMs: MINUTE_MS,
}

/** A world with a current sandbox that runs unused, except for the given facts. */
export const worldOf = ({
  known,
  ...given
}: Partial<Omit<World, "known">> & { known?: Partial<Known> | undefined }): World => ({
  known: known && {
    phase: "ready",
    phaseMs: 0,
    configHash: OLD_CONFIG,
    desiredHash: OLD_CONFIG,
    isReplaced: false,
    isSuccessorAsked: false,
    isPresumedDead: false,
    isBeingMade: false,
    ...known,
  },
  state: "running",
  activity: { kind: "none" },
  idleMs: 0,
  pressure: undefined,
  users: [],
  keptFor: [],
  canPause: true,
  policy: POLICY,
  halted: undefined,
  ...given,
})

/** The answer that a sandbox would give if it were asked; it may also stay silent. */
export type Truth = Exclude<KnownActivity["kind"], "unknown">
