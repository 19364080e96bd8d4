import { type Context, STORE } from "../context.ts"
import { everyTop } from "../inventory.ts"
import { readRecord, removePassingRecord } from "../records/files.ts"
import { ClaimRecord } from "../records/schemas.ts"
import { type IsAlive, isStale } from "../tops/claim.ts"
import { type Findings, readOrReport } from "./findings.ts"

/** Ends the claims of sandboxes that are gone. */
export const releaseStaleClaims = async (
  context: Context,
  isAlive: IsAlive,
  findings: Findings,
): Promise<void> => {
  for (const id of await everyTop(context)) {
    const file = context.layout.top(id).claim
    const claim = await readOrReport(findings, id, () => readRecord(file, ClaimRecord))
    if (!claim || !(await isStale(id, claim, isAlive))) continue
    await context.serially(STORE, () => removePassingRecord(file))
    findings.repairs.push({
      kind: "released_claim",
      subject: id,
      said: `${claim.sandbox}, which had claimed it, is gone`,
    })
  }
}
