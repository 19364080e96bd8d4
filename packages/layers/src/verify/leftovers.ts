import { basename, join } from "node:path"
import { FLAT_RECORD, SNAPSHOT_RECORD, TOP_RECORD, WORK } from "../io/layout.ts"
import { namesIn } from "../io/names-in.ts"
import { ASIDE, readRecord, removePassingRecord } from "../records/files.ts"
import { SnapshotRecord } from "../records/schemas.ts"
import type { Context, Discarding } from "../store/context.ts"
import { STORE } from "../store/context.ts"
import { inTurns } from "../store/in-turns.ts"
import { everyLayer, everyTop } from "../store/inventory.ts"
import { removeTopRemains } from "../tops/remains.ts"
import { throwAway } from "../trees/throw-away.ts"
import { type Findings, readOrReport } from "./findings.ts"

/** Removes unfinished files of operations that a crash interrupted. */
export const clearLeftovers = async (
  context: Context,
  { signal, wait = true }: Discarding,
  findings: Findings,
): Promise<void> => {
  const thrownAway = await namesIn(context.layout.trash)
  await clearIncoming(context, findings)
  tellTrash(thrownAway, findings)
  if (wait) await context.trash.emptied(signal)
  else context.trash.empty()
  await clearRecords(context, findings)
  await clearLayers(context, findings)
}

/**
 * Removes drafts, which count for nothing. An interrupted snapshot may have left a sandbox frozen, which is reported.
 */
const clearIncoming = async (context: Context, findings: Findings): Promise<void> => {
  const { layout, underWay } = context
  for (const name of await namesIn(layout.incoming)) {
    if (underWay.has(name)) continue
    const directory = join(layout.incoming, name)
    const note = await readOrReport(findings, name, () =>
      readRecord(join(directory, SNAPSHOT_RECORD), SnapshotRecord),
    )
    if (note) findings.perhapsFrozen.push(note.sandbox)
    if (!(await throwAway(layout, directory))) continue
    findings.repairs.push({
      kind: "removed_partial",
      subject: name,
      said: note
        ? `a snapshot of ${note.sandbox} was cut short; what was copied of it is removed`
        : "it was being made when a crash came; what there was of it is removed",
    })
  }
}

const tellTrash = (names: readonly string[], { repairs }: Findings): void => {
  for (const name of names) {
    repairs.push({
      kind: "removed_leftover",
      subject: `trash/${name}`,
      said: "nothing stood on it and it was being deleted; now it is",
    })
  }
}

/**
 * Removes records that were written and not yet given their name, and those of freezes that did not come to the rename:
 * such a top still is one. Records aside are only ever written under STORE; freezes of this process are under way.
 */
const clearRecords = (context: Context, findings: Findings): Promise<void> =>
  context.serially(STORE, async () => {
    const { layout, underWay } = context
    const workspaces = (await namesIn(layout.stacks)).map((name) => join(layout.stacks, name))
    for await (const directory of inTurns([layout.root, layout.pins, ...workspaces]))
      await clearAside(context, directory, await namesIn(directory), findings)
    for await (const id of inTurns(await everyTop(context))) {
      if (underWay.has(id)) continue
      const { directory, layerRecord } = layout.top(id)
      const names = await namesIn(directory)
      await clearAside(context, directory, names, findings)
      if (!names.includes(basename(layerRecord))) continue
      await removePassingRecord(layerRecord)
      findings.repairs.push({
        kind: "removed_leftover",
        subject: id,
        said: "it was about to be frozen; it still is a top, with all that was written",
      })
    }
  })

const clearAside = async (
  { layout }: Context,
  directory: string,
  names: readonly string[],
  { repairs }: Findings,
): Promise<void> => {
  for (const name of names) {
    if (!name.endsWith(ASIDE)) continue
    const file = join(directory, name)
    await removePassingRecord(file)
    repairs.push({
      kind: "removed_leftover",
      subject: file.slice(layout.root.length + 1),
      said: "a record was being written; the one before it holds",
    })
  }
}

const clearLayers = async (context: Context, { repairs }: Findings): Promise<void> => {
  for await (const id of inTurns(await everyLayer(context))) {
    if (context.underWay.has(id)) continue
    const { directory, flat } = context.layout.layer(id)
    const names = await namesIn(directory)
    if (names.includes(FLAT_RECORD + ASIDE)) await removePassingRecord(flat + ASIDE)
    if (!names.includes(WORK) && !names.includes(TOP_RECORD)) continue
    await removeTopRemains(context, id)
    repairs.push({
      kind: "removed_leftover",
      subject: id,
      said: "it had been frozen; what it needed as a top is removed",
    })
  }
}
