import { BerthError } from "@berth/protocol/errors"
import type { TopId } from "@berth/protocol/ids"
import type { Context } from "../context.ts"
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

export const topInUse = (top: TopId, why: string, details: object): BerthError =>
  new BerthError("layers.top_in_use", `the top ${top} is in use: ${why}`, {
    details: { top, ...details },
  })
