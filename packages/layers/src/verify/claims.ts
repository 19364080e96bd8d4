import { mountNamespaces } from "@berth/host/mount-namespaces"
import type { TopId } from "@berth/protocol/ids"
import { mountedBy } from "../claims/mounted.ts"
import { isDamaged } from "../claims/read-claim.ts"
import { readRecord, removePassingRecord } from "../records/files.ts"
import { ClaimRecord } from "../records/schemas.ts"
import { type Context, STORE } from "../store/context.ts"
import { inTurns } from "../store/in-turns.ts"
import { everyTop } from "../store/inventory.ts"
import { type IsAlive, isStale } from "../tops/claim.ts"
import { type Findings, readOrReport } from "./findings.ts"

/** Ends the claims of sandboxes that are gone. */
export const releaseStaleClaims = async (
  context: Context,
  isAlive: IsAlive,
  findings: Findings,
): Promise<void> => {
  const isMounted = mountedNow()
  for await (const id of inTurns(await everyTop(context))) {
    const file = context.layout.top(id).claim
    const claim = await readOrReport(findings, id, () => readOrUnreadable(context, id))
    if (claim === undefined) continue
    if (claim !== UNREADABLE) {
      if ((await isMounted(id)) || !(await isStale(id, claim, isAlive))) continue
    }
    await context.serially(STORE, () => removePassingRecord(file))
    findings.repairs.push({
      kind: "released_claim",
      subject: id,
      said:
        claim === UNREADABLE
          ? "its claim cannot be read, as after a power loss, and nothing has it mounted; the claim is removed"
          : `${claim.sandbox}, which had claimed it, is gone`,
    })
  }
}

/** One look at the kernel's mount tables for all tops, made at the first question: with each running sandbox there is another table. */
const mountedNow = (): ((top: TopId) => Promise<boolean>) => {
  let looked: Promise<string> | undefined
  return async (top) => {
    looked ??= mountNamespaces().then((found) => found.map(({ mounts }) => mounts).join(""))
    return (await looked).includes(top)
  }
}

const UNREADABLE = Symbol("unreadable")

/** A claim that cannot be read, of a top that is mounted, stays as a problem: somebody uses the top. */
const readOrUnreadable = async (
  context: Context,
  top: TopId,
): Promise<ClaimRecord | typeof UNREADABLE | undefined> => {
  try {
    return await readRecord(context.layout.top(top).claim, ClaimRecord)
  } catch (thrown) {
    if (!isDamaged(thrown) || (await mountedBy(top)).length > 0) throw thrown
    return UNREADABLE
  }
}
