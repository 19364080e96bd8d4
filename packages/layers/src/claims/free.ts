import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { TopId } from "@berth/protocol/ids"
import type { Context } from "../store/context.ts"
import { mountedBy } from "./mounted.ts"
import { readClaim } from "./read-claim.ts"

/** Refuses a top that a sandbox has claimed, or that is mounted whatever the claims say. */
export const assertFree = async (context: Context, top: TopId): Promise<void> => {
  const claim = await readClaim(context, top)
  if (claim) throw topInUse(top, `it is claimed by ${claim.sandbox}`, { sandbox: claim.sandbox })
  await assertNotMounted(top)
}

export const assertNotMounted = async (top: TopId): Promise<void> => {
  const pids = await mountedBy(top)
  if (pids.length > 0) throw topInUse(top, `process ${pids.join(", ")} has it mounted`, { pids })
}

/**
 * The longest wait for programs that have a copy of a mount that is gone. Any program that begins a mount namespace gets copies of all
 * mounts of the host: the runtime of another engine until its container has a root, the copying program of a fork until it has copied.
 */
const COPIES_MS = 5_000
const LOOK_EVERY_MS = 50

/** Waits until no process has a top mounted whose sandbox is gone. Refuses it if one still has it after a while. */
export const whenUnmounted = async (top: TopId): Promise<void> => {
  const untilMs = performance.now() + COPIES_MS
  while ((await mountedBy(top)).length > 0 && performance.now() < untilMs)
    await pause(LOOK_EVERY_MS)
  await assertNotMounted(top)
}

export const topInUse = (top: TopId, why: string, details: object): BerthError =>
  new BerthError("layers.top_in_use", `the top ${top} is in use: ${why}`, {
    details: { top, ...details },
  })
