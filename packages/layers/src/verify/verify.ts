import { BerthError } from "@berth/protocol/errors"
import type { LayersReport } from "@berth/protocol/layer"
import { collect } from "../collect/collect.ts"
import { readPin } from "../pins/pin.ts"
import { removeRecord } from "../records/files.ts"
import type { PinRecord } from "../records/schemas.ts"
import { readTop } from "../stacks/read.ts"
import { type Context, type Discarding, STORE } from "../store/context.ts"
import { inTurns } from "../store/in-turns.ts"
import { everyPin, everyTop } from "../store/inventory.ts"
import type { IsAlive } from "../tops/claim.ts"
import { releaseStaleClaims } from "./claims.ts"
import { type Findings, noFindings, readOrReport } from "./findings.ts"
import { checkLayers } from "./layers.ts"
import { clearLeftovers } from "./leftovers.ts"
import { repairStacks } from "./stacks.ts"

export interface VerifyOptions extends Discarding {
  /** Asks the backend; without it only claims from before the last reboot count as stale. */
  readonly isAlive?: IsAlive
  /** Whether to walk every tree, too, to see whether it is as it was frozen. Default: true. */
  readonly trees?: boolean
}

/**
 * Repairs leftovers of a crash and reports all other problems. Deletes only files that were never finished or that
 * nothing refers to, and needs nothing but the disk. May run while other operations do.
 */
export const verify = async (
  context: Context,
  { signal, wait = true, isAlive = () => true, trees = true }: VerifyOptions = {},
): Promise<LayersReport> => {
  const discarding: Discarding = { wait, ...(signal && { signal }) }
  const findings = noFindings()
  const stacks = await repairStacks(context, findings)
  await clearLeftovers(context, discarding, findings)
  await releaseStaleClaims(context, isAlive, findings)
  const pins = await checkPins(context, findings)
  await removeUnused(context, discarding, findings)
  const tops = await checkTops(context, findings)
  const layers = await checkLayers(context, { trees, signal }, findings)
  return { ...findings, checked: { stacks, layers, tops, pins } }
}

const removeUnused = async (
  context: Context,
  discarding: Discarding,
  { repairs, problems }: Findings,
): Promise<void> => {
  try {
    const { layers, tops } = await collect(context, discarding)
    for (const subject of [...layers, ...tops]) {
      repairs.push({ kind: "removed_unused", subject, said: "nothing stands on it" })
    }
  } catch (thrown) {
    if (!(thrown instanceof BerthError)) throw thrown
    problems.push({
      kind: "record_unreadable",
      subject: "collect",
      said: `nothing is removed while it is unknown what stands on what: ${thrown.message}`,
      stacks: [],
    })
  }
}

const checkPins = (context: Context, findings: Findings): Promise<number> =>
  context.serially(STORE, async () => {
    const ids = await everyPin(context)
    for (const id of ids) {
      const pin = await readOrReport(findings, id, () => readPin(context, id))
      if (pin?.passing && !context.passing.has(id)) await removePassingPin(context, pin, findings)
    }
    return ids.length
  })

const removePassingPin = async (
  { layout }: Context,
  { id, reason }: PinRecord,
  { repairs }: Findings,
): Promise<void> => {
  await removeRecord(layout.pin(id))
  repairs.push({
    kind: "removed_leftover",
    subject: id,
    said: `what it was made for was cut short: ${reason}`,
  })
}

const checkTops = (context: Context, findings: Findings): Promise<number> =>
  context.serially(STORE, async () => {
    const ids = await everyTop(context)
    for await (const id of inTurns(ids))
      await readOrReport(findings, id, () => readTop(context, id))
    return ids.length
  })
