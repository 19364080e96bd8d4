import type { StackKey } from "@berth/protocol/layer"
import { layerOfTop } from "../io/layout.ts"
import { namesIn } from "../io/names-in.ts"
import { readRecord } from "../records/files.ts"
import { StackRecord } from "../records/schemas.ts"
import { findFlat } from "../stacks/flat.ts"
import { findLayer } from "../stacks/layer.ts"
import { findTop, stackName } from "../stacks/read.ts"
import { writeStack } from "../stacks/write.ts"
import { type Context, STORE } from "../store/context.ts"
import { inTurns } from "../store/in-turns.ts"
import { everyStack } from "../store/inventory.ts"
import { type Findings, readOrReport } from "./findings.ts"

/** Brings every stack in line with its trees. */
export const repairStacks = async (context: Context, findings: Findings): Promise<number> => {
  const keys = await everyStack(context)
  for await (const key of inTurns(keys)) {
    await context.serially(stackName(key), () =>
      readOrReport(findings, stackName(key), () => repairStack(context, key, findings)),
    )
  }
  return keys.length
}

const repairStack = async (context: Context, key: StackKey, findings: Findings): Promise<void> => {
  const record = await readRecord(context.layout.stack(key), StackRecord)
  if (record === undefined) return
  const { layer, top } = record
  if (top === null) return reportMissingLayer(context, key, layer, findings)
  const found = await findTop(context, top)
  if (found) {
    const below = found.parents.at(-1) ?? null
    if (below !== layer && below === (await findFlat(context, layer))) {
      await context.serially(STORE, () => writeStack(context, { key, layer: below, top }))
      findings.repairs.push({
        kind: "finished_flatten",
        subject: stackName(key),
        said: `its top had been put on the flattened layer ${below}; the stack now says so`,
      })
    } else if (below !== layer) {
      findings.problems.push({
        kind: "chain_broken",
        subject: top,
        said: `${top} was made on another stack than ${stackName(key)} has; it is mounted on its own`,
        stacks: [stackName(key)],
      })
    }
    return
  }
  const frozen = layerOfTop(top)
  if (await findLayer(context, frozen)) {
    await context.serially(STORE, () => writeStack(context, { key, layer: frozen, top: null }))
    findings.repairs.push({
      kind: "finished_freeze",
      subject: stackName(key),
      said: `its top had become the layer ${frozen}; the stack now says so`,
    })
    return
  }
  if ((await namesIn(context.layout.tops)).includes(top)) {
    findings.problems.push({
      kind: "record_unreadable",
      subject: top,
      said: "the record of this top is missing; its files are left where they are",
      stacks: [stackName(key)],
    })
    return
  }
  await context.serially(STORE, () => writeStack(context, { key, layer, top: null }))
  findings.repairs.push({
    kind: "forgot_top",
    subject: stackName(key),
    said: `its top ${top} is gone from the disk, with what was written since the last freeze`,
  })
  return reportMissingLayer(context, key, layer, findings)
}

const reportMissingLayer = async (
  context: Context,
  key: StackKey,
  layer: StackRecord["layer"],
  { problems }: Findings,
): Promise<void> => {
  if (layer === null || (await findLayer(context, layer))) return
  problems.push({
    kind: "layer_missing",
    subject: layer,
    said: `${stackName(key)} stands on ${layer}, which is not there`,
    stacks: [stackName(key)],
  })
}
