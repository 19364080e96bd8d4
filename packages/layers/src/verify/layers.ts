import { lstat } from "node:fs/promises"
import type { LayerId } from "@berth/protocol/ids"
import type { LayersProblem } from "@berth/protocol/layer"
import { findReferences } from "../collect/references.ts"
import type { LayerRecord } from "../records/schemas.ts"
import { findLayer, readLayer } from "../stacks/layer.ts"
import { whileReading } from "../stacks/reading.ts"
import { type Context, STORE } from "../store/context.ts"
import { inTurns } from "../store/in-turns.ts"
import { everyLayer } from "../store/inventory.ts"
import { isComparable, summarizeTree } from "../trees/summary.ts"
import { type Findings, readOrReport } from "./findings.ts"

export interface LayerChecks {
  /** Whether to walk every tree, too, to see whether it is as it was frozen. */
  readonly trees: boolean
  readonly signal: AbortSignal | undefined
}

/** Checks every layer. A fault in a layer cannot be repaired, only reported. */
export const checkLayers = async (
  context: Context,
  checks: LayerChecks,
  findings: Findings,
): Promise<number> => {
  const ids = await everyLayer(context)
  for await (const id of inTurns(ids)) {
    // A layer that was collected in the meantime is no problem.
    if (!(await lstat(context.layout.layer(id).directory).catch(() => undefined))) continue
    const wrong = await readOrReport(findings, id, () =>
      whileReading(context, id, async () =>
        wrongWith(context, await readLayer(context, id), checks),
      ),
    )
    for (const { kind, said } of wrong ?? []) {
      findings.problems.push({ kind, subject: id, said, stacks: await stacksOn(context, id) })
    }
  }
  return ids.length
}

type Wrong = Pick<LayersProblem, "kind" | "said">

const wrongWith = async (
  context: Context,
  record: LayerRecord,
  { trees, signal }: LayerChecks,
): Promise<Wrong[]> => {
  const { tree } = context.layout.layer(record.id)
  const isTree = await lstat(tree).then(
    (stats) => stats.isDirectory(),
    () => false,
  )
  if (!isTree) return [{ kind: "tree_missing", said: "its files are gone" }]
  const chain = await brokenChain(context, record)
  if (!trees) return chain
  const { digest, size } = await summarizeTree(context, tree, { signal })
  const { files, bytes } = record.size
  const isSame = isComparable(record.summary)
    ? digest === record.summary
    : files === size.files && bytes === size.bytes
  if (isSame) return chain
  const said = `it is not as it was frozen (${files} files and ${bytes} bytes then, ${size.files} and ${size.bytes} now)`
  return [...chain, { kind: "layer_changed", said }]
}

const brokenChain = async (context: Context, { parents }: LayerRecord): Promise<Wrong[]> => {
  const wrong: Wrong[] = []
  for (const [at, parent] of parents.entries()) {
    const below = await findLayer(context, parent).catch(() => undefined)
    if (below === undefined) {
      wrong.push({ kind: "layer_missing", said: `it stands on ${parent}, which is not there` })
    } else if (below.parents.join() !== parents.slice(0, at).join()) {
      wrong.push({ kind: "chain_broken", said: `${parent} below it stands on other layers` })
    }
  }
  return wrong
}

const stacksOn = async (context: Context, id: LayerId): Promise<string[]> => {
  const references = await context
    .serially(STORE, () => findReferences(context))
    .catch(() => undefined)
  return (references?.layers.get(id) ?? []).filter((holder) => holder.includes("/"))
}
