import { join } from "node:path"
import type { SandboxId } from "@berth/protocol/ids"
import { SNAPSHOT_RECORD } from "../io/layout.ts"
import { namesIn } from "../io/names-in.ts"
import { readRecord } from "../records/files.ts"
import { SnapshotRecord } from "../records/schemas.ts"
import type { Context } from "../store/context.ts"
import { noFindings, readOrReport } from "./findings.ts"

/** Finds the sandboxes of snapshots that were cut short, by the notes in their drafts. */
export const findPerhapsFrozen = async ({ layout, underWay }: Context): Promise<SandboxId[]> => {
  const frozen: SandboxId[] = []
  for (const name of await namesIn(layout.incoming)) {
    if (underWay.has(name)) continue
    // A note that cannot be read is a finding of `verify`.
    const note = await readOrReport(noFindings(), name, () =>
      readRecord(join(layout.incoming, name, SNAPSHOT_RECORD), SnapshotRecord),
    )
    if (note) frozen.push(note.sandbox)
  }
  return frozen
}
